"""The request of an example as curl, JavaScript and Python. Pure: from the declaration to text.

`$NAME` in an example is a value that the reader has; it becomes a variable of that name in each language.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from types import NoneType
from typing import Any, NamedTuple

import msgspec

from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.example import Example
from pilotis.http.api.principals import Credential

VARIABLE = re.compile(r"(?<!\$)\$([A-Z][A-Z0-9_]+)")
_PARAMETER = re.compile(r"[:*](\w+)")
_WIDTH = 56
_FORM = """const { openAsBlob } = await import("node:fs");
const form = new FormData();
form.append("file", await openAsBlob("NAME"), "NAME");
"""

_UPLOAD = """const { openAsBlob } = await import("node:fs");
"""

_BEARERS = {
    Credential.MEMBER: "ACCESS_TOKEN",
    Credential.SECRET_KEY: "SECRET_KEY",
    Credential.REFRESH: "REFRESH_TOKEN",
    Credential.CONSOLE: "CONSOLE_TOKEN",
}


class Request(NamedTuple):
    """A request with variables in its strings; `body` is unset if there is no JSON."""

    method: str
    url: str
    headers: dict[str, str]
    body: Any
    content: str | None
    answers: str
    file: str | None = None
    upload: str | None = None

    @property
    def variables(self) -> list[str]:
        """Return the names of the variables in order of appearance."""
        body = "" if self.body is msgspec.UNSET else json.dumps(self.body)
        text = " ".join([self.url, *self.headers.values(), body, self.content or ""])
        return list(dict.fromkeys(VARIABLE.findall(text)))


def request_of(endpoint: Endpoint, example: Example, base_url: str) -> Request:
    """Return the request of an example."""
    headers: dict[str, str] = {}
    if endpoint.access.needs_public_key:
        headers["X-Public-Key"] = "$PUBLIC_KEY"
    if endpoint.access.needs_bearer:
        (bearer,) = endpoint.access.usual - {Credential.PUBLIC_KEY}
        headers["Authorization"] = f"Bearer ${_BEARERS[bearer]}"
    headers |= example.headers
    if example.body is not msgspec.UNSET:
        headers["Content-Type"] = "application/json"
    return Request(
        endpoint.method,
        _url(endpoint, example, base_url),
        headers,
        example.body,
        example.content,
        _answers(endpoint),
        example.file,
        example.upload,
    )


def _url(endpoint: Endpoint, example: Example, base_url: str) -> str:
    def value(match: re.Match[str]) -> str:
        return example.path.get(match[1], f"${match[1].upper()}")

    query = "&".join(f"{name}={value}" for name, value in example.query.items())
    return (example.url or base_url + _PARAMETER.sub(value, endpoint.path)) + (f"?{query}" if query else "")


def _answers(endpoint: Endpoint) -> str:
    if endpoint.returns is NoneType:
        return "nothing"
    return "json" if endpoint.media_type == "application/json" else "text"


def curl(request: Request) -> str:
    """Return the request as a command for a POSIX shell."""
    method = "" if request.method == "GET" else f"-X {request.method} "
    lines = [f'curl {method}"{request.url}"', *(f'-H "{name}: {value}"' for name, value in request.headers.items())]
    if request.body is not msgspec.UNSET:
        lines.append(f"-d '{_quoted(_indented(pretty(request.body), '  '))}'")
    elif request.content is not None:
        lines.append(f"--data-binary '{_quoted(request.content)}'")
    elif request.file is not None:
        lines.append(f'-F "file=@{request.file}"')
    elif request.upload is not None:
        lines.append(f'--data-binary "@{request.upload}"')
    return " \\\n  ".join(lines)


def _quoted(text: str) -> str:
    """Return a single-quoted shell string, with variables outside the quotes."""
    return VARIABLE.sub(r"""'"$\1"'""", text.replace("'", "'\\''"))


def javascript(request: Request) -> str:
    """Return the request as a JavaScript module, for browsers and Node.js."""
    options: dict[str, str] = {}
    if request.method != "GET":
        options["method"] = json.dumps(request.method)
    if request.headers:
        options["headers"] = _literal(request.headers, _JAVASCRIPT)
    if request.body is not msgspec.UNSET:
        options["body"] = f"JSON.stringify({_literal(request.body, _JAVASCRIPT)})"
    elif request.content is not None:
        options["body"] = _literal(request.content, _JAVASCRIPT)
    elif request.file is not None:
        options["body"] = "form"
    elif request.upload is not None:
        options["body"] = f"await openAsBlob({json.dumps(request.upload)})"
    inner = "".join(f"  {name}: {_indented(value, '  ')},\n" for name, value in options.items())
    call = f"{_literal(request.url, _JAVASCRIPT)}" + (f", {{\n{inner}}}" if options else "")
    shown = {"json": "await response.json()", "text": "await response.text()", "nothing": "response.status"}
    before = _UPLOAD if request.upload else "" if request.file is None else _FORM.replace("NAME", request.file)
    return f"{before}const response = await fetch({call});\nconsole.log({shown[request.answers]});"


def python(request: Request) -> str:
    """Return the request as Python, with httpx."""
    arguments = [_literal(request.url, _PYTHON)]
    if request.headers:
        own = {name: value for name, value in request.headers.items() if value != "application/json"}
        arguments += [f"headers={_literal(own, _PYTHON)}"] if own else []
    if request.body is not msgspec.UNSET:
        arguments.append(f"json={_literal(request.body, _PYTHON)}")
    elif request.content is not None:
        arguments.append(f"content={_literal(request.content, _PYTHON)}")
    elif request.file is not None:
        arguments.append(f'files={{"file": open("{request.file}", "rb")}}')
    elif request.upload is not None:
        arguments.append(f'content=open("{request.upload}", "rb").read()')
    inner = "".join(f"    {_indented(argument, '    ')},\n" for argument in arguments)
    shown = {"json": "response.json()", "text": "response.text", "nothing": "response.status_code"}
    function = request.method.lower()
    if function == "delete" and request.body is not msgspec.UNSET:
        # httpx.delete accepts no body.
        function, inner = "request", f'    "DELETE",\n{inner}'
    return f"import httpx\n\nresponse = httpx.{function}(\n{inner})\nprint({shown[request.answers]})"


class _Language(NamedTuple):
    null: str
    true: str
    false: str
    key: Callable[[str], str]
    text: Callable[[str], str]
    indent: str


def _json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _javascript_text(text: str) -> str:
    if variable := VARIABLE.fullmatch(text):
        return variable[1]
    if not VARIABLE.search(text):
        return _json_text(text)
    return "`" + VARIABLE.sub(r"${\1}", text.replace("\\", "\\\\").replace("`", "\\`")) + "`"


def _python_text(text: str) -> str:
    if variable := VARIABLE.fullmatch(text):
        return variable[1]
    if not VARIABLE.search(text):
        return _json_text(text)
    return "f" + VARIABLE.sub(r"{\1}", json.dumps(text.replace("{", "{{").replace("}", "}}"), ensure_ascii=False))


def _javascript_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_$][\w$]*", name) else _json_text(name)


_JSON = _Language("null", "true", "false", _json_text, _json_text, "  ")
_JAVASCRIPT = _Language("null", "true", "false", _javascript_key, _javascript_text, "  ")
_PYTHON = _Language("None", "True", "False", _json_text, _python_text, "    ")


def _literal(value: Any, language: _Language) -> str:
    """Return a JSON value as a literal, on one line if it fits."""
    if isinstance(value, str):
        return language.text(value)
    if isinstance(value, dict):
        items = [f"{language.key(name)}: {_literal(item, language)}" for name, item in value.items()]
        opening, closing = ("{ ", " }") if language is _JAVASCRIPT else ("{", "}")
        return _wrapped(items, opening, closing, language.indent) if items else "{}"
    if isinstance(value, list):
        return _wrapped([_literal(item, language) for item in value], "[", "]", language.indent)
    if value is None:
        return language.null
    if isinstance(value, bool):
        return language.true if value else language.false
    return json.dumps(value)


def pretty(value: Any) -> str:
    """Return readable JSON: short values stay on one line."""
    return _literal(value, _JSON)


def _wrapped(items: list[str], opening: str, closing: str, indent: str) -> str:
    line = opening + ", ".join(items) + closing
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    inner = ",\n".join(indent + _indented(item, indent) for item in items)
    return f"{opening.strip()}\n{inner}\n{closing.strip()}"


def _indented(text: str, indent: str) -> str:
    """Return a text with all lines but the first indented."""
    return text.replace("\n", "\n" + indent)
