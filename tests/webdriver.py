"""Firefox and WebKit, the engine of Safari, driven by the commands of WebDriver (W3C): real clicks and real keys.

WebKit's driver takes them over HTTP. Firefox itself takes the same ones over its own protocol, Marionette, for which
no other program is needed.
"""

import asyncio
import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chromium import ARTIFACTS
from tests.waiting import reserved_port

PATIENCE = 60
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
# Not there yet, not there any more, or something lies over it: a dialog that goes, for example.
_PASSING = {"element click intercepted", "element not interactable", "no such element", "stale element reference"}
# The one that is named exactly so, else the first whose name has the text in it.
_FIND = """
const [css, text] = arguments;
const isShown = (one) => one.getClientRects().length && getComputedStyle(one).visibility === "visible";
const name = (one) => (one.getAttribute("aria-label") || one.labels?.[0]?.textContent || one.textContent || "").trim();
const all = [...document.querySelectorAll(css)].filter(isShown);
return (text ? all.find((one) => name(one) === text) || all.find((one) => name(one).includes(text)) : all[0]) || null;
"""
_SHOWN = """
return [...document.querySelectorAll(arguments[0])].filter((one) =>
    one.getClientRects().length && getComputedStyle(one).visibility === "visible"
        && !one.closest("[aria-hidden=true]"));
"""
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "Control": "\ue009", "Meta": "\ue03d", "Down": "\ue015"}


class CommandError(Exception):
    """A command that failed; `code` is the error of the standard."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Window:
    """A browser's one window."""

    name: str

    async def command(self, method: str, path: str, name: str, **given: Any) -> Any:
        """Run a command: its method and path below the session's by the standard, and its name in Marionette."""
        raise NotImplementedError

    async def complaints(self) -> list[str]:
        """Return what scripts of the pages did not catch, and what their policies forbade."""
        raise NotImplementedError

    async def open(self, url: str) -> None:
        """Visit an address and wait until the page is loaded."""
        await self.command("POST", "/url", "Navigate", url=url)

    async def url(self) -> str:
        return str(await self.command("GET", "/url", "GetCurrentURL"))

    async def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function in the page and return its value."""
        return await self.command("POST", "/execute/sync", "ExecuteScript", script=script, args=list(arguments))

    async def find(self, css: str, text: str = "") -> str:
        """Return what is shown and has a name, once it is there."""
        found = await self.until(lambda: self.run(_FIND, css, text), f"{css} {text!r} is not there")
        return str(found[_ELEMENT])

    async def gone(self, css: str, text: str = "") -> None:
        """Wait until there is no such thing."""

        async def is_gone() -> bool:
            return await self.run(_FIND, css, text) is None

        await self.until(is_gone, f"{css} {text!r} is still there")

    async def click(self, css: str, text: str = "") -> None:
        """Press the pointer in its middle; what lies over it must go."""

        async def clicked() -> bool:
            element = await self.find(css, text)
            await self.command("POST", f"/element/{element}/click", "ElementClick", id=element)
            return True

        await self._once(clicked, f"{css} {text!r} cannot be clicked")

    async def type(self, css: str, text: str, value: str) -> None:
        """Type into a field, after what is in it."""

        async def typed() -> bool:
            element = await self.find(css, text)
            await self.command(
                "POST", f"/element/{element}/value", "ElementSendKeys", id=element, text=value, value=list(value)
            )
            return True

        await self._once(typed, f"nothing can be typed into {css} {text!r}")

    async def press(self, *keys: str) -> None:
        """Press keys one after another where the focus is; `Control+k` holds the first one meanwhile."""
        steps = []
        for key in keys:
            pressed = [KEYS.get(one, one) for one in key.split("+")] if len(key) > 1 else [key]
            steps += [{"type": "keyDown", "value": one} for one in pressed]
            steps += [{"type": "keyUp", "value": one} for one in reversed(pressed)]
        actions = [{"type": "key", "id": "keyboard", "actions": steps}]
        await self.command("POST", "/actions", "PerformActions", actions=actions)

    async def double_click(self, css: str, text: str = "") -> None:
        element = await self.find(css, text)
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {_ELEMENT: element}}
        press = [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        actions = [{"type": "pointer", "id": "mouse", "actions": [move, *press, *press]}]
        await self.command("POST", "/actions", "PerformActions", actions=actions)

    async def spoken(self, css: str, text: str = "") -> tuple[str, str]:
        """Return the role and the name of something in the accessibility tree, as a screen reader says them."""
        element = await self.find(css, text)
        role = await self.command("GET", f"/element/{element}/computedrole", "GetComputedRole", id=element)
        label = await self.command("GET", f"/element/{element}/computedlabel", "GetComputedLabel", id=element)
        return str(role), str(label)

    async def nameless(self, css: str) -> list[str]:
        """Return what is shown and has no name in the accessibility tree."""
        found = []
        for one in await self.run(_SHOWN, css):
            element = one[_ELEMENT]
            try:
                label = await self.command("GET", f"/element/{element}/computedlabel", "GetComputedLabel", id=element)
                if not label:
                    found.append(str(await self.run("return arguments[0].outerHTML.slice(0, 120);", one)))
            except CommandError as error:
                # A live list has replaced the element meanwhile.
                if error.code != "stale element reference":
                    raise
        return found

    async def until(self, condition: Callable[[], Any], complaint: str) -> Any:
        """Return what the condition returns once that is true."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not (found := await condition()):
            if asyncio.get_running_loop().time() > deadline:
                await self.keep_picture("failed")
                raise AssertionError(f"{self.name}: {complaint}, at {await self.url()}")
            await asyncio.sleep(0.02)
        return found

    async def _once(self, action: Callable[[], Any], complaint: str) -> None:
        async def tried() -> Any:
            try:
                return await action()
            except CommandError as error:
                if error.code not in _PASSING:
                    raise
                return False

        await self.until(tried, complaint)

    async def reached(self, part: str) -> str:
        """Wait until the address has a part, and return it."""

        async def is_there() -> str:
            url = await self.url()
            return url if part in url else ""

        return str(await self.until(is_there, f"{part} was not reached"))

    async def resize(self, width: int, height: int) -> None:
        await self.command("POST", "/window/rect", "SetWindowRect", width=width, height=height)

    async def keep_picture(self, name: str) -> Path:
        """Keep a picture of the window in `tests/artifacts` and return its path."""
        content = await self.command("GET", "/screenshot", "TakeScreenshot", full=False)
        ARTIFACTS.mkdir(exist_ok=True)
        path = ARTIFACTS / f"{self.name}-{name}.png"
        path.write_bytes(b64decode(content))
        return path


class Firefox(Window):
    """Firefox, over the socket of Marionette: arrays of JSON, each behind its length."""

    name = "firefox"

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)

    async def command(self, method: str, path: str, name: str, **given: Any) -> Any:
        name = name if ":" in name else f"WebDriver:{name}"
        message = json.dumps([0, next(self._numbers), name, given]).encode()
        self._writer.write(b"%d:" % len(message) + message)
        _, _, error, result = await self.read()
        if error:
            raise CommandError(error["error"], error["message"])
        return result["value"] if isinstance(result, dict) and set(result) == {"value"} else result

    async def read(self) -> Any:
        length = int((await self._reader.readuntil(b":"))[:-1])
        return json.loads(await self._reader.readexactly(length))

    async def complaints(self) -> list[str]:
        await self.command("", "", "Marionette:SetContext", value="chrome")
        said = await self.run(
            "return Services.console.getMessageArray().filter((one) => /^http/.test(one.sourceName || ''))"
            ".map((one) => `${one.errorMessage} ${one.sourceName}:${one.lineNumber}`);"
        )
        await self.command("", "", "Marionette:SetContext", value="content")
        return list(said)


class WebKit(Window):
    """WebKitGTK's small browser, over HTTP; `log` is where it writes what pages say on their consoles."""

    name = "webkit"

    def __init__(self, client: httpx.AsyncClient, session: str, log: Path) -> None:
        self._client = client
        self._session = session
        self._log = log

    async def command(self, method: str, path: str, name: str, **given: Any) -> Any:
        body = {"content": json.dumps(given)} if method == "POST" else {}
        return _value(await self._client.request(method, f"/session/{self._session}{path}", **body))

    async def complaints(self) -> list[str]:
        said = self._log.read_text("utf-8", errors="replace").splitlines()
        return [line for line in said if re.search(r"CONSOLE (JS|SECURITY|\w+) (ERROR|WARN)", line)]


def _value(answer: httpx.Response) -> Any:
    value = answer.json()["value"]
    if answer.status_code != 200:
        raise CommandError(value["error"], value["message"])
    return value


@contextlib.asynccontextmanager
async def firefox() -> AsyncIterator[Window]:
    """Start Firefox without windows, and end it; skips the test where there is none."""
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if program is None:
        pytest.skip("there is no Firefox; `apt-get install firefox-esr` brings it")
    with tempfile.TemporaryDirectory(prefix="pilotis-firefox-") as home:
        (profile := Path(home)).joinpath("user.js").write_text('user_pref("marionette.port", 0);\n')
        # System access is for reading its own console.
        arguments = ["--headless", "--marionette", "--remote-allow-system-access", "--profile", home]
        with _running(program, *arguments, HOME=home):
            port = int(await _soon(lambda: _content(profile / "MarionetteActivePort")))
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
            window = Firefox(reader, writer)
            await window.read()
            await window.command("POST", "", "NewSession")
            await window.resize(1280, 900)
            yield window
            writer.close()
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def webkit() -> AsyncIterator[Window]:
    """Start WebKit on a screen that nobody sees, and end it; skips the test where there is none."""
    if missing := [program for program in ("WebKitWebDriver", "Xvfb") if shutil.which(program) is None]:
        pytest.skip(f"there is no {missing[0]}; `apt-get install webkit2gtk-driver xvfb` brings WebKit")
    with tempfile.TemporaryDirectory(prefix="pilotis-webkit-") as home:
        log = Path(home, "log")
        async with contextlib.AsyncExitStack() as stack:
            display, port = stack.enter_context(_screen()), stack.enter_context(reserved_port())
            place = {"HOME": home, "XDG_RUNTIME_DIR": home, "DISPLAY": display, "NO_AT_BRIDGE": "1"}
            stack.enter_context(_running("WebKitWebDriver", f"--port={port}", log=log, **place))
            base = f"http://127.0.0.1:{port}"
            client = await stack.enter_async_context(httpx.AsyncClient(base_url=base, timeout=PATIENCE, verify=False))
            await _soon(lambda: _listens(port))
            arguments = ["--automation", "--enable-write-console-messages-to-stdout=true"]
            wanted = {"alwaysMatch": {"webkitgtk:browserOptions": {"binary": _mini_browser(), "args": arguments}}}
            session = _value(await client.post("/session", json={"capabilities": wanted}))["sessionId"]
            window = WebKit(client, session, log)
            await window.resize(1280, 900)
            yield window
            await client.delete(f"/session/{session}")


ENGINES: dict[str, Callable[[], AbstractAsyncContextManager[Window]]] = {"firefox": firefox, "webkit": webkit}


def _mini_browser() -> str:
    found = sorted(Path("/usr").glob("lib*/**/webkit2gtk-4.*/MiniBrowser"))
    if not found:
        pytest.skip("there is no MiniBrowser; `apt-get install webkit2gtk-driver` brings it with WebKit")
    return str(found[-1])


async def _listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await writer.wait_closed()
        return True
    return False


async def _soon(condition: Callable[[], Any]) -> Any:
    """Return what the condition, which may be asynchronous, returns once that is true."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = condition()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.02)


def _content(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@contextlib.contextmanager
def _screen() -> Iterator[str]:
    """Run a screen without a monitor and return its name."""
    told, tell = os.pipe()
    try:
        arguments = ["-displayfd", str(tell), "-screen", "0", "1400x1000x24", "-nolisten", "tcp"]
        with _running("Xvfb", *arguments, pass_fds=(tell,)):
            # It writes the number once it is ready.
            yield f":{os.read(told, 20).decode().strip()}"
    finally:
        os.close(told)
        os.close(tell)


@contextlib.contextmanager
def _running(
    *command: str, log: Path | None = None, pass_fds: tuple[int, ...] = (), **environment: str
) -> Iterator[None]:
    """Run a program with those that it starts, and end them."""
    with (log or Path(os.devnull)).open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=pass_fds,
            start_new_session=True,
            env={**os.environ, **environment},
        )
    try:
        yield
    finally:
        for signal in (15, 9):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal)
                process.wait(10)
                break
