"""Runs one function inside a sandbox. Frames: see frames.py; standard input and output are one socket to the server.

The system's Python runs this file alone; it cannot import Pilotis. What takes long to import is imported when it is
needed, because a cold call waits for it, or while a prestarted sandbox waits for its first call.
"""

import _thread
import binascii
import os
import sys

MAX_RESULT = 6 * 1024 * 1024
MAX_LOG, MAX_LINES, MAX_LINE = 64 * 1024, 1000, 10_000
# In Base64 it fits into a frame.
MAX_BODY = 5 * 1024 * 1024
APP = "/tmp/app/"  # noqa: S108
PACKAGES = sys.argv[1] if len(sys.argv) > 1 else "/packages"
STACK_BYTES = 1024 * 1024
# A sandbox that waits this long for its first frame was started before there is a call.
IDLE_SECONDS = 0.1
_NAMES = {
    "raw_body": "rawBody",
    "raw_body_base64": "rawBodyBase64",
    "execution_id": "executionId",
    "function_id": "functionId",
    "function_name": "functionName",
    "app_id": "appId",
    "idempotency_key": "idempotencyKey",
    "as_caller": "asCaller",
    "as_member": "asMember",
}

# The socket to the server: standard input and output, until `main` replaces them for the function.
control = 0
# Returns a value as JSON text.
encode = None


def send(message):
    """Write a complete frame."""
    send_text(json.dumps(message, allow_nan=False).encode())


def send_text(body):
    """Write a frame of JSON text."""
    view = memoryview(len(body).to_bytes(4, "big") + body)
    while view:
        view = view[os.write(control, view) :]


def base64(data):
    """Return bytes as Base64 text."""
    return binascii.b2a_base64(data, newline=False).decode()


class Log:
    """The log of one call; `write` makes it a text file as well."""

    def __init__(self, level):
        self.level = level
        self.rest = ""

    def write(self, text):
        """Log whole lines."""
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            log(self.level, line)
        if len(self.rest) > MAX_LINE:
            log(self.level, self.rest)
            self.rest = ""
        return len(text)

    def flush(self):
        """Log the unfinished line."""
        if self.rest:
            log(self.level, self.rest)
            self.rest = ""

    def isatty(self):
        """Whether the file is a terminal."""
        return False


class State:
    """The counters of the current call."""

    id = calls = logged = lines = dropped = 0


def log(level, text):
    """Send a line of the log."""
    text = str(text)[:MAX_LINE]
    if State.lines >= MAX_LINES or State.logged + len(text) > MAX_LOG:
        State.dropped += 1
        return
    State.lines += 1
    State.logged += len(text)
    send({"t": "log", "id": State.id, "level": level, "message": text})


class Logger:
    """`ctx.log`."""

    def __getattr__(self, level):
        level = {"warning": "warn", "exception": "error", "critical": "error"}.get(level, level)
        if level not in {"debug", "info", "warn", "error"}:
            raise AttributeError(level)
        return lambda *parts: log(level, " ".join(map(str, parts)))


class ApiError(Exception):
    """A response of the app's API with a status of 400 or more."""

    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Response:
    """A response of the app's API."""

    def __init__(self, reply):
        self.status = reply["status"]
        self.headers = reply["headers"]
        self.body = binascii.a2b_base64(reply["body"] or "")

    @property
    def text(self):
        """The body as text."""
        return self.body.decode()

    def json(self):
        """Return the body's JSON."""
        return json.loads(self.body) if self.body else None


waiting = {}


async def ask(frame):
    """Send a frame that the server answers, and return the `Response`."""
    State.calls += 1
    call = State.calls
    waiting[call] = Loop.current.create_future()
    send({**frame, "call": call})
    return Response(await waiting[call])


def required(answer):
    """Return a `Response`; raises `ApiError` for one with a status of 400 or more."""
    if answer.status >= 400:
        value = answer.json()
        value = value if isinstance(value, dict) else {}
        raise ApiError(answer.status, value.get("code", "ERROR"), value.get("message", ""))
    return answer


class Api:
    """The app's API, called as the function, as its caller, or as a member."""

    def __init__(self, id, caller, member=None):
        self._id, self._caller, self._member = id, caller, member
        self.members, self.functions, self.workflows = Members(self), Functions(self), Workflows(self)

    async def fetch(self, path, *, method="GET", headers=None, body=None, json=None, table=None):
        """Call a route and return its `Response`."""
        headers = dict(headers or {})
        if json is not None:
            body = sys.modules["json"].dumps(json, allow_nan=False)
            headers["content-type"] = "application/json"
        data = body.encode() if isinstance(body, str) else body
        if data is not None and len(data) > MAX_BODY:
            text = f"A function sends at most {MAX_BODY} bytes in one request."
            raise ApiError(413, "PAYLOAD_TOO_LARGE", text)
        return await ask(
            {
                "t": "call",
                "id": self._id,
                "caller": self._caller,
                "member": self._member,
                "method": method,
                "path": path,
                "headers": headers,
                "table": table,
                "body": None if data is None else base64(data),
            }
        )

    async def json(self, method, path, body=None, table=None):
        """Call a route and return its JSON; raises `ApiError`."""
        return (await self.require(path, method=method, json=body, table=table)).json()

    async def require(self, path, **request):
        """Call a route and return its `Response`; raises `ApiError`."""
        return required(await self.fetch(path, **request))

    def rows(self, table):
        """Return the rows of a table, by its title or id."""
        return Rows(self, table)

    def view(self, name, params=None):
        """Call a view with the values of its parameters."""
        return self.json("POST", "/v1/public/views/" + _part(name), {"params": params or {}})

    def table(self, table):
        """Read a table."""
        return self.json("GET", "/v1/public/tables/{table}", table=table)

    def channel(self, name):
        """Return a channel by its name."""
        return Channel(self, name)

    def files(self, storage):
        """Return the files of a storage."""
        return Files(self, storage)


_DATA = "/v1/public/tables/{table}/data"


def _query(values):
    from urllib.parse import urlencode

    return "?" + urlencode(values) if values else ""


def _part(text, safe=""):
    from urllib.parse import quote

    return quote(str(text), safe=safe)


class Rows:
    """The rows of a table."""

    def __init__(self, api, table):
        self._api, self._table = api, table

    def _call(self, method, path, body=None):
        return self._api.json(method, _DATA + path, body, self._table)

    def list(self, **values):
        """List rows."""
        return self._call("GET", _query(values))

    def get(self, row):
        """Read a row."""
        return self._call("GET", "/" + _part(row))

    def create(self, data):
        """Create a row."""
        return self._call("POST", "", {"data": data})

    def update(self, row, changes):
        """Change a row."""
        return self._call("PATCH", "/" + _part(row), {"data": changes})

    def delete(self, row):
        """Delete a row."""
        return self._call("DELETE", "/" + _part(row))

    def query(self, request=None, **fields):
        """Find rows by a condition."""
        return self._call("POST", "/query", {**(request or {}), **fields})


class Members:
    """The members of the app."""

    def __init__(self, api):
        self._api = api

    def list(self, **values):
        """List members."""
        return self._api.json("GET", "/v1/apps/{app}/members" + _query(values))

    def get(self, member):
        """Read a member."""
        return self._api.json("GET", "/v1/apps/{app}/members/" + _part(member))

    def update(self, member, changes):
        """Change a member."""
        return self._api.json("PATCH", "/v1/apps/{app}/members/" + _part(member), changes)


class Files:
    """The files of a storage."""

    def __init__(self, api, storage):
        self._api, self._path = api, "/v1/public/storages/files/" + _part(storage)
        self._links = f"/files/{_part(storage)}/p/"

    def list(self, **values):
        """List files."""
        return self._api.json("GET", self._path + "/items" + _query(values))

    def get(self, path):
        """Read the metadata of the file at a path."""
        return self._api.json("GET", self._path + "/path/" + _part(path, "/"))

    def delete(self, file):
        """Delete a file."""
        return self._api.json("DELETE", self._path + "/items/" + _part(file))

    async def read(self, path):
        """Return the bytes of the file at a path."""
        return (await self._api.require(self._links + _part(path, "/"))).body

    async def write(self, path, data, type="application/octet-stream"):
        """Write the file at a path, replacing an earlier one, and return its metadata.

        It is a resumable upload whose first request has all the bytes: they pass the server, wherever it stores them.
        """
        data = data.encode() if isinstance(data, str) else bytes(data)
        given = {"path": path, "filetype": type, "overwrite": "true"}
        headers = {
            "tus-resumable": "1.0.0",
            "content-type": "application/offset+octet-stream",
            "upload-length": str(len(data)),
            "upload-metadata": ",".join(f"{name} {base64(text.encode())}" for name, text in given.items()),
        }
        upload = await self._api.require(self._path + "/tus", method="POST", headers=headers, body=data)
        return await self._api.json("POST", self._path + "/complete-upload", {"file_id": upload.json()["file_id"]})


class Functions:
    """The other functions of the app."""

    def __init__(self, api):
        self._api = api

    def invoke(self, name, payload=None):
        """Call a function and return its invocation result."""
        return self._api.json("POST", f"/v1/public/functions/{_part(name)}/invoke", {"payload": payload or {}})


class Channel:
    """A channel of the app."""

    def __init__(self, api, name):
        self._api, self._path = api, f"/v1/public/realtime/channels/{_part(name)}/messages"

    def send(self, event, payload=None):
        """Send a message to those who listen."""
        return self._api.json("POST", self._path, {"event": event, "payload": payload})


class Workflows:
    """The workflows of the app."""

    def __init__(self, api):
        self._api = api

    def execute(self, workflow, input=None):
        """Start a workflow."""
        return self._api.json("POST", f"/v1/apps/{{app}}/workflows/{_part(workflow)}/execute", {"input": input or {}})


class Context(dict):
    """The context: items by the names in JavaScript, and attributes by those in Python."""

    def __getattr__(self, name):
        try:
            return self[_NAMES.get(name, name)]
        except KeyError:
            raise AttributeError(name) from None


class Function:
    """The function that this sandbox runs."""

    handler = None
    env = type(type.__dict__)({})


def load(message):
    """Write the files and import the entry file."""
    global APP
    APP = message.get("folder") or APP
    Function.env = type(type.__dict__)(dict(message["env"]))
    os.environ.update(Function.env)
    for name, text in message["files"].items():
        path = APP + name
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(binascii.a2b_base64(text))
    folder, name = os.path.split(APP + message["entry"])
    for place in (PACKAGES, APP.rstrip("/"), folder):
        if place not in sys.path:
            sys.path.insert(0, place)
    name = name.removesuffix(".py")
    __import__(name)
    module = sys.modules[name]
    Function.handler = getattr(module, "handler", None) or getattr(module, "main", None)
    if not callable(Function.handler):
        raise TypeError("The entry file defines no function named handler or main.")


def free_variables(trace):
    """Free what the frames of a trace hold: it filled the memory, and the answer needs some."""
    while trace:
        try:  # noqa: SIM105 - importing contextlib takes time
            trace.tb_frame.clear()
        except RuntimeError:
            pass  # It still runs.
        trace = trace.tb_next


def failure(error):
    """Return the fields of a frame that describe an exception."""
    if isinstance(error, MemoryError):
        free_variables(error.__traceback__)
    import traceback

    trace = error.__traceback__
    while trace and not trace.tb_frame.f_code.co_filename.startswith(APP):
        trace = trace.tb_next
    code = "MEMORY_EXCEEDED" if isinstance(error, MemoryError) else "FUNCTION_ERROR"
    try:
        stack = "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))
        message = str(error) or type(error).__name__
    except Exception:
        # Its conversion to text is the function's own code.
        stack, message = "", f"A {type(error).__name__} that cannot be converted to text."
    return {"error": message[:2000], "code": code, "stack": stack.replace(APP, "")[:8000]}


def token_of(id):
    """Return `ctx.token`."""

    async def token():
        """Return a token of this call for libraries that call the API over HTTP."""
        return required(await ask({"t": "token", "id": id})).json()

    return token


def invoke(message):
    """Call the function and send its result; one that is awaited is left to the loop, from then on."""
    State.id = message["id"]
    State.logged = State.lines = State.dropped = 0
    context = Context(message["context"])
    context["env"], context["log"] = Function.env, Logger()
    context["api"] = Api(State.id, False)
    context["token"] = token_of(State.id)
    context["asMember"] = lambda member: Api(State.id, False, str(member))
    context["asCaller"] = Api(State.id, True) if context.pop("hasCaller", False) else None
    try:
        result = Function.handler(message["payload"], context)
        answer = None if hasattr(result, "__await__") else ended(result)
    except SystemExit:
        os._exit(1)
    except BaseException as error:
        answer = failure(error)
    if answer is None:
        Loop.run(awaited(result))
    else:
        finish(answer)


async def awaited(result):
    """Await a result and send it."""
    try:
        answer = ended(await result)
    except SystemExit:
        os._exit(1)
    except BaseException as error:
        answer = failure(error)
    finish(answer)


def finish(answer):
    """Send the end of the current call."""
    sys.stdout.flush()
    sys.stderr.flush()
    if State.dropped:
        send({"t": "dropped", "id": State.id, "call": State.dropped})
    if isinstance(answer, dict):
        send({"t": "result", "id": State.id, "ok": False, **answer})
    else:
        send_text(b'{"t":"result","id":%d,"ok":true,"result":%b}' % (State.id, answer))


def ended(result):
    """Return a result as JSON text, or the fields of a frame that describe why it is none."""
    try:
        text = encode(result)
        try:
            text = text.encode()
        except UnicodeEncodeError:
            # Half a surrogate pair has no UTF-8, but an escape.
            text = json.dumps(result, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return {"error": f"The result cannot be converted to JSON: {error}"[:2000], "code": "RESULT_NOT_JSON"}
    if len(text) > MAX_RESULT:
        return {"error": "The result is larger than 6 MB.", "code": "RESULT_TOO_LARGE"}
    return text


class Loop:
    """The event loop, which runs from the first awaitable result on. Plain functions have none."""

    current = None
    task = None

    @classmethod
    def run(cls, work):
        """Run the work of a call in the loop."""
        is_new = cls.current is None
        if is_new:
            import asyncio

            cls.current = asyncio.new_event_loop()
            asyncio.set_event_loop(cls.current)
            cls.current.add_reader(control, receive)
        # The loop itself does not keep a task alive.
        cls.task = cls.current.create_task(work)
        if is_new:
            cls.current.run_forever()


def received(message):
    """Process a frame of the server."""
    if message["t"] == "reply":
        future = waiting.pop(message["call"], None)
        if future and not future.done():
            future.set_result(message)
    elif message["t"] == "load":
        try:
            load(message)
        except BaseException as error:
            send({"t": "loaded", **failure(error)})
        else:
            send({"t": "loaded"})
    elif message["t"] == "invoke":
        invoke(message)


buffer = bytearray()


def receive():
    """Read the available bytes, or wait for some, and process their frames."""
    data = os.read(control, 1 << 18)
    if not data:
        os._exit(0)
    buffer.extend(data)
    while len(buffer) >= 4:
        size = int.from_bytes(buffer[:4], "big")
        if len(buffer) < 4 + size:
            break
        message = json.loads(bytes(buffer[4 : 4 + size]))
        del buffer[: 4 + size]
        received(message)


class _Handler:
    """A handler of `logging`."""

    level = 0

    def handle(self, record):
        """Log a record."""
        level = "error" if record.levelno >= 40 else "warn" if record.levelno >= 30 else "info"
        log("debug" if record.levelno < 20 else level, record.getMessage())
        return True


class _Logging:
    """A finder of modules that adds the handler to `logging` when that is imported."""

    def find_spec(self, name, *_):
        """Return the spec of `logging`, and no other."""
        if name != "logging":
            return None
        sys.meta_path.remove(self)
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name)
        run = spec.loader.exec_module

        def executed(module):
            run(module)
            module.root.addHandler(_Handler())
            module.root.setLevel(module.INFO)
            module.getLogger("asyncio").setLevel(module.ERROR)

        spec.loader.exec_module = executed
        return spec


def main():
    """Process the server's frames."""
    global control, encode, json
    # Otherwise the stacks of a few threads would take a small function's memory.
    _thread.stack_size(STACK_BYTES)
    control = os.dup(0)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.stdout, sys.stderr = Log("info"), Log("error")
    sys.meta_path.insert(0, _Logging())
    sys.modules["pilotis"] = type(sys)("pilotis")
    sys.modules["pilotis"].ApiError = ApiError
    send_text(b'{"t":"ready"}')
    # While the server reads it.
    import json
    import select

    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    if not select.select([control], [], [], IDLE_SECONDS)[0]:
        # It is prestarted.
        for name in ("asyncio", "traceback", "urllib.parse"):
            __import__(name)
    while True:
        receive()


if __name__ == "__main__":
    main()
