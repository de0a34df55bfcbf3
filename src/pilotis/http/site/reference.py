"""The reference at `/docs`: the OpenAPI document as a page for people."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from pilotis.http.endpoint import Endpoint
from pilotis.http.openapi import Json
from pilotis.http.principals import Access

_CODE = re.compile(r"`([^`]+)`")
_PARAMETER = re.compile(r"[:*](\w+)")
_DEEPEST = 3

_SAMPLE_BEARERS = {
    Access.PUBLIC_KEY_AND_MEMBER: "$ACCESS_TOKEN",
    Access.MEMBER: "$ACCESS_TOKEN",
    Access.SECRET_KEY: "$SECRET_KEY",
    Access.REFRESH_TOKEN: "$REFRESH_TOKEN",
}


def reference(endpoints: Sequence[Endpoint], document: Json) -> str:
    """Return the page's body."""
    groups: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        groups.setdefault(endpoint.tag, []).append(endpoint)
    return (
        '<div class="reference">\n<nav aria-label="Routes">\n'
        f'<p class="brand">Pilotis {escape(_version(document))}</p>\n'
        '<input id="search" type="search" placeholder="Search  ( / )" aria-label="Search the routes">\n'
        '<details id="contents" open><summary>Routes</summary>\n'
        + "".join(_contents(tag, members) for tag, members in groups.items())
        + f"</details>\n</nav>\n<main>\n{_introduction(document)}"
        + '<p id="none" hidden>No route matches the search.</p>\n'
        + "".join(_group(tag, members, document) for tag, members in groups.items())
        + "</main>\n</div>"
    )


def _version(document: Json) -> str:
    return str(document["info"]["version"])


def _introduction(document: Json) -> str:
    example = json.dumps(
        {
            "code": "VALIDATION_FAILED",
            "message": "title is required.",
            "details": [{"field": "title", "code": "REQUIRED", "message": "title is required."}],
            "request_id": "0199a3c2-…",
        },
        indent=2,
        ensure_ascii=False,
    )
    return (
        "<h1>Reference</h1>\n"
        f"<p>Requests go to <code>{escape(document['servers'][0]['url'])}</code>. Bodies are JSON in UTF-8. The header "
        "<code>X-Public-Key</code> names the app; a bearer token says who acts. "
        'The same as a document for programs: <a href="/openapi.json">openapi.json</a>.</p>\n'
        "<p>Every error has this shape. <code>code</code> is for programs, <code>message</code> for people, "
        "<code>details</code> names fields at fault, and <code>request_id</code>, also in the header "
        f"<code>X-Request-Id</code>, finds the request in the logs.</p>\n<pre><code>{escape(example)}</code></pre>\n"
    )


def _contents(tag: str, endpoints: Sequence[Endpoint]) -> str:
    items = "".join(
        f'<li data-find="{_findable(endpoint)}"><a href="#{_anchor(endpoint)}">{_method(endpoint)}'
        f"<span>{escape(_short(endpoint.summary))}</span></a></li>\n"
        for endpoint in endpoints
    )
    return f'<div class="group"><h2>{escape(tag)}</h2>\n<ul>\n{items}</ul></div>\n'


def _short(summary: str) -> str:
    """Return a summary's first sentence up to where it goes into particulars."""
    return re.split(r"[.;:,](?: |$)", summary, maxsplit=1)[0]


def _group(tag: str, endpoints: Sequence[Endpoint], document: Json) -> str:
    articles = "".join(_article(endpoint, document) for endpoint in endpoints)
    return f'<section class="group">\n<h2>{escape(tag)}</h2>\n{articles}</section>\n'


def _article(endpoint: Endpoint, document: Json) -> str:
    operation = document["paths"][_PARAMETER.sub(r"{\1}", endpoint.path)][endpoint.method.lower()]
    anchor = _anchor(endpoint)
    success = operation["responses"][str(endpoint.status)]
    parts = [
        f'<h3><a href="#{anchor}">{_method(endpoint)}{escape(endpoint.path)}</a></h3>',
        f"<p>{_prose(endpoint.summary)}</p>",
        *(f"<p>{_prose(text)}</p>" for text in endpoint.description.split("\n\n") if text),
        f'<p class="access">Access: {_prose(endpoint.access.value)}.</p>',
        _fields("Parameters", _parameters(operation)),
        _fields("Body", _body_rows(operation.get("requestBody"), document, _REQUEST)),
        _fields(f"Answer {endpoint.status}", _body_rows(success, document, _ANSWER)),
        f"<h4>Example</h4>\n<pre><code>{escape(_curl(endpoint, operation, document))}</code></pre>",
        _errors(operation["responses"], endpoint.status),
    ]
    inner = "\n".join(part for part in parts if part)
    return f'<article id="{anchor}" data-find="{_findable(endpoint)}">\n{inner}\n</article>\n'


def _method(endpoint: Endpoint) -> str:
    return f'<span class="method {endpoint.method.lower()}">{endpoint.method}</span>'


def _anchor(endpoint: Endpoint) -> str:
    return escape(f"{endpoint.method.lower()}{endpoint.path.replace('/', '-').replace(':', '')}")


def _findable(endpoint: Endpoint) -> str:
    return escape(f"{endpoint.method} {endpoint.path} {endpoint.summary} {endpoint.tag}".lower())


def _prose(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(" ".join(text.split())))


Row = tuple[str, str, str, str]
# What is said of a field that must be there, and of one that need not.
Words = tuple[str, str]
_REQUEST: Words = ("required", "")
_ANSWER: Words = ("", "may be absent")


def _fields(title: str, rows: Iterator[Row]) -> str:
    lines = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}"
        + (f' <span class="need">{escape(need)}</span>' if need else "")
        + f"</td><td>{_prose(text)}</td></tr>\n"
        for name, kind, need, text in rows
    )
    if not lines:
        return ""
    head = "<tr><th>Name</th><th>Type</th><th>Notes</th></tr>"
    return f'<h4>{escape(title)}</h4>\n<div class="scroll"><table>\n{head}\n{lines}</table></div>'


def _parameters(operation: Json) -> Iterator[Row]:
    for parameter in operation.get("parameters", ()):
        need = "required" if parameter["required"] else ""
        text = f"in the {parameter['in']}"
        yield parameter["name"], _kind(parameter["schema"], {}), need, text + _default(parameter["schema"])


def _body_rows(content: Json | None, document: Json, words: Words) -> Iterator[Row]:
    if content and "application/json" in content.get("content", {}):
        yield from _rows(content["content"]["application/json"]["schema"], document, words, "", 0)


def _rows(schema: Json, document: Json, words: Words, prefix: str, depth: int) -> Iterator[Row]:
    for alternative in schema.get("anyOf", [schema]):
        resolved = _resolved(alternative, document)
        if resolved.get("type") == "array":
            yield from _rows(resolved.get("items", {}), document, words, f"{prefix}[]", depth)
            continue
        for name, field in resolved.get("properties", {}).items():
            full = f"{prefix}.{name}" if prefix else name
            need = words[name not in resolved.get("required", ())]
            yield full, _kind(field, document), need, field.get("description", "") + _default(field)
            if depth < _DEEPEST:
                yield from _rows(field, document, words, full, depth + 1)


def _resolved(schema: Json, document: Json) -> Json:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    found: Json = document["components"]["schemas"][reference.rpartition("/")[2]]
    return found


def _kind(schema: Json, document: Json) -> str:
    schema = _resolved(schema, document)
    if "anyOf" in schema:
        return " or ".join(_kind(one, document) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(json.dumps(value) for value in schema["enum"])
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}), document)}"
    return f"{schema['format']}" if "format" in schema else kind + _range(schema)


def _range(schema: Json) -> str:
    low, high = schema.get("minimum", schema.get("minLength")), schema.get("maximum", schema.get("maxLength"))
    unit = " characters" if schema.get("type") == "string" else ""
    if low is None and high is None:
        return ""
    if high is None or high >= 2**53:
        return f", from {low}{unit}"
    return f", {low} to {high}{unit}" if low is not None else f", up to {high}{unit}"


def _default(schema: Json) -> str:
    default = schema.get("default")
    return f" Default `{json.dumps(default)}`." if default is not None else ""


def _errors(responses: Json, success: int) -> str:
    rows = "".join(
        f"<tr><td>{status}</td><td>{''.join(_error(line) for line in response['description'].splitlines())}</td></tr>\n"
        for status, response in responses.items()
        if status != str(success)
    )
    table = f'<div class="scroll"><table>\n{rows}</table></div>'
    return f'<details class="errors"><summary>Errors</summary>\n{table}</details>'


def _error(line: str) -> str:
    return f"<div>{_prose(line.removeprefix('- '))}</div>"


def _curl(endpoint: Endpoint, operation: Json, document: Json) -> str:
    path = _PARAMETER.sub(lambda match: "$" + match[1].upper(), endpoint.path)
    lines = [f'curl {"" if endpoint.method == "GET" else f"-X {endpoint.method} "}"$BASE_URL{path}"']
    if endpoint.access.needs_public_key:
        lines.append('-H "X-Public-Key: $PUBLIC_KEY"')
    if endpoint.access.needs_bearer:
        lines.append(f'-H "Authorization: Bearer {_SAMPLE_BEARERS.get(endpoint.access, "$CONSOLE_TOKEN")}"')
    if endpoint.takes_stream:
        lines += ["-H 'Content-Type: image/png'", "--data-binary @picture.png"]
    elif "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = json.dumps(sample(schema, document), ensure_ascii=False).replace("'", "'\\''")
        lines += ["-H 'Content-Type: application/json'", f"-d '{body}'"]
    return " \\\n  ".join(lines)


def sample(schema: Json, document: Json, depth: int = 0) -> Any:
    """Return a value the schema allows, with the fields it requires; all fields where it requires none."""
    resolved = _resolved(schema, document)
    if "anyOf" in resolved:
        return sample(resolved["anyOf"][0], document, depth)
    if "enum" in resolved:
        return resolved["enum"][0]
    kind = resolved.get("type")
    if kind == "object":
        properties = resolved.get("properties", {})
        names = resolved.get("required") or list(properties)[:1]
        return {name: sample(properties[name], document, depth + 1) for name in names} if depth < _DEEPEST else {}
    if kind == "array":
        return [sample(resolved.get("items", {}), document, depth + 1)]
    simple = {"integer": 1, "number": 1, "boolean": True, "null": None, "string": "…"}
    return resolved.get("default", simple.get(str(kind), "…"))
