"""The reference at `/docs`: the OpenAPI document as a page for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

import msgspec

from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.json_schemas import Json
from pilotis.http.api.openapi import operation_id
from pilotis.http.reference import samples
from pilotis.http.reference.fields import answer_fields, body_fields, parameter_fields, prose
from pilotis.http.reference.highlight import highlight
from pilotis.http.reference.introduction import introduction
from pilotis.http.reference.languages import conditions, pipeline
from pilotis.kit import json

_PARAMETER = re.compile(r"[:*](\w+)")
_LOCAL = "http://127.0.0.1:8090"

# The groups that most readers look for come first; groups not named here follow.
_ORDER = (
    "App member authentication",
    "Tables and columns",
    "Table data",
    "Advanced data routes",
    "File storage",
    "File transfer",
    "Resumable uploads",
    "App settings",
    "Tokens",
)
_TITLES = {
    "App member authentication": "Members",
    "Tables and columns": "Tables",
    "Table data": "Rows",
    "Advanced data routes": "Queries and transactions",
    "File storage": "Files",
    "File transfer": "Bytes of files",
}


class Group(NamedTuple):
    """A section of the page: the operations of one tag, for apps or for the console."""

    title: str
    anchor: str
    console: bool
    endpoints: list[Endpoint]


def reference(endpoints: Sequence[Endpoint], document: Json) -> str:
    """Return the page's body."""
    groups = _groups(endpoints)
    own = [group for group in groups if not group.console]
    console = [group for group in groups if group.console]
    return (
        '<div class="reference">\n<nav class="rail" aria-label="Operations">\n'
        '<input id="search" type="search" placeholder="Search operations" aria-label="Search operations" '
        'aria-keyshortcuts="/" autocomplete="off"><kbd aria-hidden="true">/</kbd>\n'
        '<details id="contents" open><summary>All operations</summary>\n'
        '<p class="part">Start</p>\n<ul>\n'
        '<li><a href="#introduction">Introduction</a></li>\n<li><a href="#errors">Errors</a></li>\n'
        '<li><a href="#where">Conditions</a></li>\n<li><a href="#pipeline">Aggregation pipeline</a></li>\n</ul>\n'
        '<p class="part">For apps</p>\n' + "".join(map(_contents, own)) + '<p class="part">For the console</p>\n'
        f"{''.join(map(_contents, console))}</details>\n</nav>\n"
        f'<main id="main">\n<div id="prose">{introduction(document)}{conditions()}{pipeline()}</div>\n'
        '<p id="none" role="status" hidden>No operation matches the search.</p>\n'
        + "".join(_section(group, document) for group in [*own, *console])
        + '</main>\n</div>\n<div id="announcer" class="hidden" role="status" aria-live="polite"></div>'
    )


def _groups(endpoints: Sequence[Endpoint]) -> list[Group]:
    groups: dict[tuple[bool, str], Group] = {}
    for endpoint in endpoints:
        console = endpoint.is_console
        title = _TITLES.get(endpoint.tag, endpoint.tag)
        anchor = ("console-" if console else "") + re.sub(r"\W+", "-", title.lower())
        groups.setdefault((console, endpoint.tag), Group(title, anchor, console, [])).endpoints.append(endpoint)
    places = {tag: place for place, tag in enumerate(_ORDER)}
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], places.get(item[0][1], len(places))))
    return [group for _, group in ordered]


def _contents(group: Group) -> str:
    items = "".join(
        f'<li data-find="{_findable(endpoint)}"><a href="#{_anchor(endpoint)}"><span>{escape(_short(endpoint))}</span>'
        f"{_method(endpoint)}</a></li>\n"
        for endpoint in group.endpoints
    )
    return f'<div class="group"><p class="tag">{escape(group.title)}</p>\n<ul>\n{items}</ul></div>\n'


def _short(endpoint: Endpoint) -> str:
    """Return an operation's short title: `createRow` becomes `Create row`."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", operation_id(endpoint)).replace("_", " ")
    return words[:1].upper() + words[1:].lower()


def _section(group: Group, document: Json) -> str:
    articles = "".join(_article(endpoint, document) for endpoint in group.endpoints)
    part = '<span class="soft">Console</span> ' if group.console else ""
    return f'<section class="group" id="{group.anchor}">\n<h2>{part}{escape(group.title)}</h2>\n{articles}</section>\n'


def _article(endpoint: Endpoint, document: Json) -> str:
    operation = document["paths"][_PARAMETER.sub(r"{\1}", endpoint.path)][endpoint.method.lower()]
    anchor = _anchor(endpoint)
    success = operation["responses"][str(endpoint.status)]
    parts = [
        f'<h3><a href="#{anchor}">{escape(_short(endpoint))}</a></h3>',
        f'<p class="route">{_method(endpoint)}<code>{escape(endpoint.path)}</code></p>',
        f"<p>{prose(endpoint.summary)}</p>",
        *(f"<p>{prose(text)}</p>" for text in endpoint.description.split("\n\n") if text),
        f'<p class="access">Access: {prose(endpoint.access.description)}</p>',
        parameter_fields(operation, document),
        body_fields(operation, document),
        answer_fields(success, endpoint.status, document),
        _errors(operation["responses"], endpoint.status),
    ]
    return (
        f'<article id="{anchor}" data-find="{_findable(endpoint)}">\n<div class="explanation">\n'
        + "\n".join(part for part in parts if part)
        + f'\n</div>\n<div class="shown">\n{_example(endpoint, document["servers"][0]["url"])}</div>\n</article>\n'
    )


def _example(endpoint: Endpoint, base_url: str) -> str:
    example = endpoint.example
    if example is None:
        return ""
    request = samples.request_of(endpoint, example, base_url)
    texts = {"curl": samples.curl(request), "js": samples.javascript(request), "python": samples.python(request)}
    names = {"curl": "curl", "js": "JavaScript", "python": "Python"}
    tabs = "".join(
        f'<button type="button" data-language="{language}" aria-pressed="{"true" if language == "curl" else "false"}">'
        f"{names[language]}</button>"
        for language in texts
    )
    blocks = "".join(
        f'<pre data-language="{language}" tabindex="0"{"" if language == "curl" else " hidden"}>'
        f"<code>{highlight(text)}</code></pre>\n"
        for language, text in texts.items()
    )
    title = escape(f"Example: {_short(endpoint).lower()}")
    sample = (
        f'<div class="sample" role="group" aria-label="{title}" data-request="{_sent(request, base_url)}">'
        f'<div class="bar">{tabs}'
        f'<button type="button" class="copy">Copy</button></div>\n{blocks}</div>\n'
    )
    return sample + _answer(endpoint, base_url)


def _sent(request: samples.Request, base_url: str) -> str:
    """Return what `run.js` sends: JSON with the address on this server, as an attribute's value."""
    parts: Json = {
        "method": request.method,
        "url": request.url.removeprefix(base_url),
        "headers": request.headers,
        "file": request.file is not None,
    }
    if request.body is not msgspec.UNSET:
        parts["body"] = request.body
    if request.content is not None:
        parts["content"] = request.content
    return escape(json.encode(parts).decode())


def _answer(endpoint: Endpoint, base_url: str) -> str:
    answer = endpoint.example.answer if endpoint.example else msgspec.UNSET
    title = f'<div class="bar"><span>Answer <b>{endpoint.status}</b></span></div>'
    if answer is msgspec.UNSET:
        return f'<div class="sample">{title}<pre><code class="soft">No body</code></pre></div>\n'
    text = answer if isinstance(answer, str) else samples.pretty(answer)
    code = highlight(text.replace(_LOCAL, base_url).rstrip("\n"))
    return f'<div class="sample">{title}\n<pre class="answer" tabindex="0"><code>{code}</code></pre></div>\n'


def _method(endpoint: Endpoint) -> str:
    return f'<span class="method {endpoint.method.lower()}">{endpoint.method}</span>'


def _anchor(endpoint: Endpoint) -> str:
    return escape(operation_id(endpoint))


def _findable(endpoint: Endpoint) -> str:
    words = [endpoint.method, endpoint.path, endpoint.summary, endpoint.tag, operation_id(endpoint), _short(endpoint)]
    return escape(" ".join(words).lower())


def _errors(responses: Json, success: int) -> str:
    rows = "".join(_error_rows(status, response) for status, response in responses.items() if status != str(success))
    return (
        '<details class="errors"><summary>Errors</summary>\n<div class="scroll" tabindex="0"><table>\n'
        f"<thead><tr><th>Status</th><th>Code</th></tr></thead>\n<tbody>{rows}</tbody></table></div></details>"
    )


def _error_rows(status: str, response: Json) -> str:
    lines: Iterable[str] = response["description"].splitlines()
    errors = "".join(f"<div>{prose(line.removeprefix('- '))}</div>" for line in lines)
    return f"<tr><td>{status}</td><td>{errors}</td></tr>\n"
