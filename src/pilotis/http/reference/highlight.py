"""Code as HTML: strings, numbers, keywords and variables marked by a few patterns. Pure."""

from __future__ import annotations

import re
from html import escape

_TOKENS = re.compile(
    r"""(?P<variable>\$\{?[A-Z][A-Z0-9_]+\}?)"""
    r"""|(?P<comment>(?:^|(?<=\s))\#\ [^\n]*)"""
    r"""|(?P<text>"(?:\\.|[^"\\\n])*"|`[^`]*`)"""
    r"""|(?P<number>(?<![\w.-])-?\d+(?:\.\d+)?(?![\w-]))"""
    r"""|(?P<word>\b(?:await|const|import|from|print|true|false|null|True|False|None)\b)""",
    re.VERBOSE,
)


_VARIABLE = re.compile(r"\$\{?[A-Z][A-Z0-9_]+\}?")


def highlight(code: str) -> str:
    """Return code as HTML; its text content is the code itself."""
    parts: list[str] = []
    end = 0
    for match in _TOKENS.finditer(code):
        parts += [escape(code[end : match.start()]), f'<span class="c-{match.lastgroup}">{_marked(match[0])}</span>']
        end = match.end()
    return "".join([*parts, escape(code[end:])])


def _marked(token: str) -> str:
    """Return a token with its variables marked."""
    if token.startswith("$"):
        return escape(token)
    return _VARIABLE.sub(r'<span class="c-variable">\g<0></span>', escape(token))
