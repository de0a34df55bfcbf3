"""The files `_redirects` and `_headers` of a site: parsing them and applying them to a path. Pure.

`_redirects` has a line for each rule: `from to [status]`. `from` is a path with `:name` for a segment and one `*` for
any rest, which `to` refers to as `:splat`. 301, 302 (the default), 303, 307 and 308 redirect; 200 serves another path
of the site if no file matches.

`_headers` has a pattern on a line of its own, and below it, indented, `Name: value` to set a header or `! Name` to
remove one. An invalid rule is skipped with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from pilotis.hosting.paths import to_url
from pilotis.hosting.types import DeployWarning

MAX_STATIC = 2000
MAX_DYNAMIC = 100
MAX_HEADER_RULES = 100
MAX_LINE = 2000
MAX_RULES_BYTES = 512 * 1024
REDIRECTS = frozenset({301, 302, 303, 307, 308})

_PLACEHOLDER = re.compile(r":[A-Za-z][A-Za-z0-9_]*")
_IS_DYNAMIC = re.compile(r"/:[A-Za-z][A-Za-z0-9_]*(/|$)|\*")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_FORBIDDEN = frozenset(
    {
        "content-length",
        "content-encoding",
        "transfer-encoding",
        "connection",
        "date",
        "etag",
        "location",
        "content-range",
        "vary",
        "x-request-id",
    }
)


class Redirect(NamedTuple):
    """The result of a rule: a status, and a target with `:name` for what the pattern matched."""

    status: int
    target: str


class DynamicRedirect(NamedTuple):
    """A rule whose pattern has placeholders."""

    pattern: re.Pattern[str]
    redirect: Redirect


class Redirects(NamedTuple):
    """The rules of a site: those for one exact path by that path, and the others in order."""

    static: Mapping[str, Redirect]
    dynamic: Sequence[DynamicRedirect]


class HeaderRule(NamedTuple):
    """Headers to set, by lower-case name, and to remove, for the paths that a pattern matches."""

    pattern: re.Pattern[str]
    set: Sequence[tuple[str, str]]
    unset: frozenset[str]


NO_REDIRECTS = Redirects({}, ())


def parse_redirects(text: str) -> tuple[Redirects, list[DeployWarning]]:
    """Return the rules of a `_redirects` file, and a warning for each line that is skipped."""
    static: dict[str, Redirect] = {}
    dynamic: list[DynamicRedirect] = []
    warnings = []
    for number, line in _lines(text):
        try:
            source, redirect = _redirect(line)
            if _IS_DYNAMIC.search(source):
                if len(dynamic) >= MAX_DYNAMIC:
                    raise ValueError(f"there are more than {MAX_DYNAMIC} rules with placeholders")
                dynamic.append(DynamicRedirect(_pattern(source), redirect))
            elif len(static) >= MAX_STATIC:
                raise ValueError(f"there are more than {MAX_STATIC} rules")
            else:
                static.setdefault(source, redirect)
        except ValueError as error:
            warnings.append(DeployWarning("INVALID_REDIRECT", "_redirects", f"Line {number} is skipped: {error}."))
    return Redirects(static, tuple(dynamic)), warnings


def parse_headers(text: str) -> tuple[list[HeaderRule], list[DeployWarning]]:
    """Return the rules of a `_headers` file, and a warning for each line that is skipped."""
    rules: list[tuple[re.Pattern[str], list[tuple[str, str]], set[str]]] = []
    warnings = []
    skipping = True
    for number, line in _lines(text):
        try:
            if not line[0].isspace():
                skipping = True
                if len(rules) >= MAX_HEADER_RULES:
                    raise ValueError(f"there are more than {MAX_HEADER_RULES} rules")
                rules.append((_pattern(_source(line.strip())), [], set()))
                skipping = False
            elif skipping:
                raise ValueError("it is not below a path")
            else:
                _add_header(line.strip(), rules[-1][1], rules[-1][2])
        except ValueError as error:
            warnings.append(DeployWarning("INVALID_HEADER", "_headers", f"Line {number} is skipped: {error}."))
    return [HeaderRule(pattern, tuple(given), frozenset(unset)) for pattern, given, unset in rules], warnings


def find_redirect(redirects: Redirects, path: str, *, rewrites: bool) -> Redirect | None:
    """Return the first rule for a path, with its target filled in: a rewrite, or one that redirects.

    One that leads to the path itself is skipped.
    """
    found = redirects.static.get(path) or redirects.static.get(_other_form(path))
    if found and (found.status == 200) is rewrites and found.target != path:
        return found
    for rule in redirects.dynamic:
        if (rule.redirect.status == 200) is not rewrites:
            continue
        match = rule.pattern.fullmatch(path)
        if match is not None:
            target = _filled(rule.redirect.target, match.groupdict())
            if target != path:
                return Redirect(rule.redirect.status, target)
    return None


def location(target: str, query: bytes) -> bytes:
    """Return the `Location` of a redirect: the request's query is kept unless the target has its own."""
    parts = urlsplit(target)
    text = to_url(parts.path) if "%" not in parts.path else parts.path
    origin = f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
    asked = parts.query or query.decode("latin-1")
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    return f"{origin}{text}{'?' if asked else ''}{asked}{fragment}".encode("ascii", "ignore")


def apply_headers(rules: Sequence[HeaderRule], path: str, headers: list[tuple[bytes, bytes]]) -> None:
    """Set and remove a response's headers according to the rules for its path; the last value of a name applies."""
    for rule in rules:
        if rule.pattern.fullmatch(path) is None:
            continue
        names = {name.encode() for name, _ in rule.set} | {name.encode() for name in rule.unset}
        headers[:] = [header for header in headers if header[0] not in names]
        headers += [(name.encode(), value.encode("latin-1")) for name, value in rule.set]


def _lines(text: str) -> list[tuple[int, str]]:
    lines = enumerate(text.replace("\ufeff", "").splitlines(), 1)
    return [(number, line) for number, line in lines if line.strip() and not line.lstrip().startswith("#")]


def _redirect(line: str) -> tuple[str, Redirect]:
    words = line[: MAX_LINE + 1].split()
    if len(line) > MAX_LINE:
        raise ValueError(f"it is longer than {MAX_LINE} characters")
    if len(words) not in {2, 3}:
        raise ValueError("it must be: from to [status]")
    source = _source(words[0])
    status = 302
    if len(words) == 3:
        number = words[2].removesuffix("!")
        if not number.isascii() or not number.isdigit() or int(number) not in REDIRECTS | {200}:
            raise ValueError("the status must be 200, 301, 302, 303, 307 or 308")
        status = int(number)
    target = words[1]
    if not _is_target(target, status):
        raise ValueError("the target must be a path, or a URL with http or https unless the status is 200")
    known = _pattern(source).groupindex.keys()
    path = target if target.startswith("/") else urlsplit(target).path
    used = {match[1] for match in re.finditer(r":([A-Za-z][A-Za-z0-9_]*)", path)}
    if missing := used - known:
        raise ValueError(f"the target names :{min(missing)}, which the pattern does not have")
    return source, Redirect(status, target)


def _is_target(target: str, status: int) -> bool:
    if any(ord(c) < 0x21 or ord(c) == 0x7F for c in target) or "\\" in target:
        return False
    if target.startswith("/"):
        return not target.startswith("//")
    try:
        parts = urlsplit(target)
    except ValueError:
        return False
    # A placeholder in the host would let the request choose the host.
    has_host = bool(re.fullmatch(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?", parts.netloc))
    return status != 200 and parts.scheme in {"http", "https"} and has_host


def _source(text: str) -> str:
    if len(text) > MAX_LINE:
        raise ValueError(f"it is longer than {MAX_LINE} characters")
    if not text.startswith("/"):
        raise ValueError("the path must begin with /")
    if text.count("*") > 1:
        raise ValueError("a path has at most one *")
    return text


def _pattern(source: str) -> re.Pattern[str]:
    """Return the expression of a path with placeholders.

    A name matches a whole segment, so matching takes time proportional to the path's length.
    """
    parts = []
    seen = set()
    # `/news/*` also matches `/news`.
    ends_in_any = source.endswith("/*")
    for segment in source.removesuffix("/*").split("/") if ends_in_any else source.split("/"):
        if segment.startswith(":") and _PLACEHOLDER.fullmatch(segment):
            name = segment[1:]
            if name in seen or name == "splat":
                raise ValueError(f"the name {name} cannot be used here")
            seen.add(name)
            parts.append(f"(?P<{name}>[^/]+)")
        else:
            before, star, after = segment.partition("*")
            parts.append(re.escape(before) + ("(?P<splat>.*)" if star else "") + re.escape(after))
    return re.compile("/".join(parts) + ("(?:/(?P<splat>.*))?" if ends_in_any else ""), re.DOTALL)


def _filled(target: str, values: Mapping[str, str | None]) -> str:
    def value(match: re.Match[str]) -> str:
        # The request must not choose the host: no target begins with two slashes.
        return to_url((values.get(match[1]) or "").lstrip("/")) if match[1] in values else match[0]

    return re.sub(r":([A-Za-z][A-Za-z0-9_]*)", value, target)


def _other_form(path: str) -> str:
    return path.removesuffix("/") if path != "/" and path.endswith("/") else path


def _add_header(line: str, given: list[tuple[str, str]], unset: set[str]) -> None:
    if line.startswith("!"):
        name = line[1:].strip().lower()
        if name in _FORBIDDEN or not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"the header {name or '!'} cannot be removed")
        unset.add(name)
        return
    name, colon, value = line.partition(":")
    name, value = name.strip().lower(), value.strip()
    if not colon or not _HEADER_NAME.fullmatch(name):
        raise ValueError("it must be Name: value, or ! Name")
    if name in _FORBIDDEN or (name == "set-cookie" and "domain" in value.lower()):
        raise ValueError(f"the header {name} cannot be set")
    if not value.isprintable() or not value.isascii():
        raise ValueError("the value must be printable ASCII")
    given.append((name, value))
