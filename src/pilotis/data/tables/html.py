"""Cleans HTML that people write: what is left shows text and runs nothing. Pure.

The cleaner's time grows with how deep elements are nested, times how many there are: elements that were not closed are
made again behind each paragraph. So that is counted before, by a reading that never takes an element for closed which
a browser leaves open.
"""

from __future__ import annotations

import re

MAX_WORK = 50_000
"""The greatest sum, over the tags of a text, of the elements that are open there: 300 nested ones, or 5,000 of 9."""

SCHEMES = frozenset({"http", "https", "mailto", "tel"})
"""The schemes of links and images that stay."""

_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)[^>]*>?")
# What may hide tags from a browser: comments, and values of attributes with a >.
_HIDING = re.compile(r"""<[!?]|=\s*"[^"]*>|=\s*'[^']*>""")
# Those that never are open, and those that the next one of their kind closes.
_EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_ENDED = {"p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "rt", "rp"}
_FLAT = _EMPTY | _ENDED


def cleaned(text: str) -> str:
    """Return HTML without scripts, styles, event handlers, forms and foreign links; see the guide for what stays.

    The text must not be `too_complex`.
    """
    if "<" not in text and "&" not in text and ">" not in text:
        return text
    import nh3

    return nh3.clean(text, url_schemes=set(SCHEMES))


def too_complex(text: str) -> bool:
    """Return whether HTML would take too long to clean."""
    if text.count("<") * 2 < MAX_WORK**0.5:
        return False
    open_, work = list[str](), 0
    is_plain = _HIDING.search(text) is None
    for closes, name in _TAG.findall(text):
        work += 1 + len(open_)
        if work > MAX_WORK:
            return True
        kind = name.lower()
        if kind in _FLAT:
            continue
        if not closes:
            open_.append(kind)
        elif is_plain and open_ and open_[-1] == kind:
            open_.pop()
    return False
