"""`pilotis functions`: write, try, deploy and call functions, over HTTP with a secret key of the app."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from pilotis.cli.function_files import FILE_NAME, read_files, read_settings
from pilotis.cli.remote import RejectedError, Remote, app_of_secret_key, by_secret_key, json_data, json_option, on_app
from pilotis.serve.errors import CommandError

_LOOK_SECONDS = 0.03
_BUILD_LOOK_SECONDS = 0.5
_TEMPLATES = Path(__file__).parent / "templates"


def find(remote: Remote, name: str) -> dict[str, Any]:
    """Return the function of a name; raises `_NoFunctionError` if there is none."""
    found: list[dict[str, Any]] = remote.ask("GET", f"/functions?limit=1000&search={quote(name)}")["data"]
    for one in found:
        if one["name"] == name:
            return one
    raise _NoFunctionError(f"The app has no function {name}; `pilotis functions deploy` creates it.")


class _NoFunctionError(CommandError):
    """The app has no function of the name."""


def upload(remote: Remote, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Store a version of the function at `path` and return it once it is built; raises `CommandError` if it fails."""
    version: dict[str, Any] = remote.ask("POST", f"{path}/versions", body)
    while version["status"] in {"queued", "building"}:
        time.sleep(_BUILD_LOOK_SECONDS)
        version = remote.ask("GET", f"{path}/versions/{version['version']}")
    if log := version.get("build_log"):
        click.echo(log.rstrip(), err=True)
    if version["status"] != "ready":
        raise CommandError(f"Version {version['version']} failed: {version['error']}")
    return version


_options = on_app(by_secret_key, app_of_credential=app_of_secret_key)
_directory = click.argument(
    "directory",
    default=".",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=False,
    help="The directory with the function; by default the current one.",
)
_name = click.argument("name", help="The function's name.")
_variable = click.argument("variable", help="The variable's name.")


@click.group()
def functions() -> None:
    """Write, try, deploy and call functions.

    The secret key is read from PILOTIS_SECRET_KEY, or asked for; it names the app.
    """


@functions.command()
@click.argument("name", help="The directory to create; its last part becomes the function's name.")
@click.option("--python", "is_python", is_flag=True, help="Write Python instead of TypeScript.")
@json_option
def init(name: str, is_python: bool, as_json: bool) -> None:
    """Create a directory with a function to begin with, its types and a test."""
    runtime = "python" if is_python else "javascript"
    place = Path(name)
    if place.exists():
        raise CommandError(f"{place} is there already.")
    shutil.copytree(_TEMPLATES / runtime, place, ignore=shutil.ignore_patterns("__pycache__"))
    entry = "main.py" if is_python else "index.ts"
    (place / FILE_NAME).write_text(f'name = "{place.name}"\nruntime = "{runtime}"\n', "utf-8")
    fields = {"directory": str(place), "entry": entry, "runtime": runtime}
    click.echo(json.dumps(fields) if as_json else f"Wrote {place / entry}. Next: pilotis functions deploy {place}")


@functions.command()
@_directory
@click.option("--no-activate", is_flag=True, help="Deploy without making it the version that is called.")
@click.option("--message", default="", help="A description of the version.")
@_options
def deploy(remote: Remote, directory: Path, no_activate: bool, message: str) -> Iterator[tuple[str, Any]]:
    """Deploy the files of a directory; creates the function where there is none of its name."""
    settings = read_settings(directory)
    function = _ensured(remote, settings)
    body = {"files": read_files(directory), "message": message, "activate": not no_activate}
    version = upload(remote, f"/functions/{function['id']}", body)
    state = "active" if version["is_active"] else "ready"
    yield f"{function['name']} version {version['version']} is {state}.", version
    for warning in version["warnings"]:
        click.echo(f"Warning: {warning}", err=True)


@functions.command()
@_directory
@click.option("--data", default="{}", help="The payload of the call after each change, as JSON.")
@click.option("--once", is_flag=True, help="Do so once, and end.")
@click.option("--port", type=click.IntRange(0, 65535), default=8787, help="The port of the address for calls; 0 = any.")
@_options
def dev(remote: Remote, directory: Path, data: str, once: bool, port: int) -> Iterator[tuple[str, Any]]:
    """Store your draft and call it at each change of a file, and print the result and the log.

    Meanwhile `POST http://127.0.0.1:8787/NAME` calls the draft with a JSON payload, and answers as a call of the
    function does.
    """
    function = _ensured(remote, read_settings(directory))
    path = f"/functions/{function['id']}"
    payload, before = json_data(data), None
    if not once:
        click.echo(f"Calls: {_serve_calls(remote, function, port)}", err=True)
    while True:
        files = read_files(directory)
        if files != before:
            before = files
            try:
                remote.ask("PUT", f"{path}/draft", {"files": files})
                result = remote.ask("POST", f"{path}/invoke", {"payload": payload, "version": "draft"})
                yield _text(result), result
            except CommandError as error:
                click.echo(str(error), err=True)
        if once:
            return
        time.sleep(_LOOK_SECONDS)


def _serve_calls(remote: Remote, function: dict[str, Any], port: int) -> str:
    """Answer calls of the draft in a thread, and return their URL.

    Programs of this machine can call it, and web pages cannot: a page of another origin may not send JSON unless it is
    allowed to (Fetch, section 4.9), and the host that it names is its own (DNS rebinding).
    """
    path = f"/{quote(function['name'])}"

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            own = {f"{name}:{server.server_port}" for name in ("127.0.0.1", "localhost")}
            if self.headers["Host"] not in own:
                return self._answer(403, {"code": "FORBIDDEN", "message": "The host is not this machine's."})
            if self.path != path:
                return self._answer(404, {"code": "NOT_FOUND", "message": f"Calls are sent to {path}."})
            if self.headers.get_content_type() != "application/json":
                return self._answer(415, {"code": "UNSUPPORTED_MEDIA_TYPE", "message": "Send application/json."})
            try:
                length = self.headers["Content-Length"] or "0"
                # RFC 9110, section 8.6: digits alone. A negative size would read until the client leaves.
                if not (length.isascii() and length.isdigit()):
                    raise ValueError(length)
                payload = json.loads(self.rfile.read(int(length)) or b"{}")
            except ValueError:
                return self._answer(
                    400, {"code": "INVALID_BODY", "message": "The body is not JSON with a Content-Length."}
                )
            body = {"payload": payload, "version": "draft"}
            try:
                self._answer(200, remote.ask("POST", f"/functions/{function['id']}/invoke", body))
            except RejectedError as error:
                self._answer(error.status, {"code": error.code, "message": str(error)})
            except CommandError as error:
                self._answer(502, {"code": "UNAVAILABLE", "message": str(error)})

        def _answer(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Leave the terminal to the results."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise CommandError(f"Port {port} cannot be used ({error.strerror}); choose another with --port.") from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}{path}"


@functions.command()
@_name
@click.option("--data", default="{}", help="The payload as JSON, or @FILE.")
@click.option("--version", help="A version's number, or draft; by default the active one.")
@_options
def invoke(remote: Remote, name: str, data: str, version: str | None) -> Iterator[tuple[str, Any]]:
    """Call a function, and print its result and log; the status is 1 unless it succeeds."""
    body: dict[str, Any] = {"payload": json_data(data)}
    if version is not None:
        body["version"] = int(version) if version.isdecimal() else version
    result = remote.ask("POST", f"/functions/{find(remote, name)['id']}/invoke", body)
    yield _text(result), result
    if not result["success"]:
        sys.exit(1)


@functions.command()
@_name
@click.option("--follow", is_flag=True, help="Wait for further lines.")
@click.option("--level", type=click.Choice(["debug", "info", "warn", "error"]), help="Lines of this level alone.")
@_options
def logs(remote: Remote, name: str, follow: bool, level: str | None) -> Iterator[tuple[str, Any]]:
    """Print the newest lines of a function's log."""
    place = f"/functions/{find(remote, name)['id']}/logs"
    newest = remote.ask("GET", f"{place}?limit=100" + (f"&level={level}" if level else ""))["lines"]
    for line in reversed(newest):
        yield _line(line), line
    if not follow:
        return
    # From the newest line on, so that no call is missed in between; that of the line itself comes again.
    since = int(datetime.fromisoformat(newest[0]["time"]).timestamp() * 1_000_000) if newest else 0
    known = {(line["execution_id"], line["index"]) for line in newest}
    for kind, _, line in remote.events(f"{place}/stream", str(since)):
        if kind == "log" and level in {None, line["level"]} and (line["execution_id"], line["index"]) not in known:
            yield _line(line), line


def _line(line: dict[str, Any]) -> str:
    return f"{line['time']}  {line['level']:5}  {_printable(line['message'])}"


def _printable(text: str) -> str:
    """Return a text of a function without what would command the terminal, or look like another line."""
    return "".join(one if one.isprintable() or one == "\t" else repr(one)[1:-1] for one in text)


@functions.group()
def env() -> None:
    """List, set and delete the variables of a function."""


@env.command("list")
@_name
@_options
def list_(remote: Remote, name: str) -> Iterator[tuple[str, Any]]:
    """List the names of variables."""
    for one in remote.ask("GET", f"/functions/{find(remote, name)['id']}/env")["variables"]:
        yield f"{one['name']}  {one['updated_at']}", one


@env.command("set")
@_name
@_variable
@_options
def set_(remote: Remote, name: str, variable: str) -> Iterator[tuple[str, Any]]:
    """Set a variable; its value is asked for, or read from the standard input."""
    text = click.prompt("Value", hide_input=True) if sys.stdin.isatty() else sys.stdin.read().removesuffix("\n")
    remote.ask("PUT", f"/functions/{find(remote, name)['id']}/env/{quote(variable)}", {"value": text})
    yield f"{variable} is set.", {"variable": variable}


@env.command()
@_name
@_variable
@_options
def unset(remote: Remote, name: str, variable: str) -> Iterator[tuple[str, Any]]:
    """Delete a variable."""
    remote.ask("DELETE", f"/functions/{find(remote, name)['id']}/env/{quote(variable)}")
    yield f"{variable} is deleted.", {"variable": variable}


@env.command("import")
@_name
@click.argument("file", type=click.File(), help="The file, or - for the standard input.")
@_options
def import_(remote: Remote, name: str, file: Any) -> Iterator[tuple[str, Any]]:
    """Set the variables of a file with lines such as NAME=value, all or none."""
    pairs = [line.strip() for line in file if line.strip() and not line.lstrip().startswith("#")]
    if wrong := [line for line in pairs if "=" not in line]:
        raise CommandError(f"{len(wrong)} lines have no =; the first begins with {wrong[0][:10]}….")
    values = {key.strip(): value.strip().strip("\"'") for key, _, value in (line.partition("=") for line in pairs)}
    remote.ask("PATCH", f"/functions/{find(remote, name)['id']}/env", {"set": values})
    yield f"{len(values)} variables are set.", {"variables": list(values)}


def _ensured(remote: Remote, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the function that the settings are of; creates it where there is none."""
    try:
        return find(remote, settings["name"])
    except _NoFunctionError:
        created: dict[str, Any] = remote.ask("POST", "/functions", settings)
        return created


def _text(result: dict[str, Any]) -> str:
    """Return a call's result as JSON; prints the log and the error to the standard error output."""
    for line in result["logs"]:
        click.echo(f"{line['level']:5}  {_printable(line['message'])}", err=True)
    if result["success"]:
        return json.dumps(result["result"], indent=2, ensure_ascii=False)
    click.echo(f"{result['status']}: {result['error_code']}: {_printable(result['error'])}", err=True)
    return ""
