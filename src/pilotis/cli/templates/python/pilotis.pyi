"""Types of a function's context, for the editor; this file is not deployed."""

from collections.abc import Awaitable, Mapping
from typing import Any, Literal, Protocol

class ApiError(Exception):
    """What methods of `ctx.api` other than `fetch` raise for a status of 400 or more."""

    status: int
    code: str
    message: str

class Response(Protocol):
    status: int
    headers: dict[str, str]
    body: bytes
    @property
    def text(self) -> str: ...
    def json(self) -> Any: ...

class Rows(Protocol):
    def list(
        self,
        *,
        limit: int = ...,
        offset: int = ...,
        fields: str = ...,
        expand: str = ...,
        cursor: str = ...,
        count: bool = ...,
    ) -> Awaitable[Any]: ...
    def get(self, row: str) -> Awaitable[Any]: ...
    def create(self, data: Mapping[str, Any]) -> Awaitable[Any]: ...
    def update(self, row: str, changes: Mapping[str, Any]) -> Awaitable[Any]: ...
    def delete(self, row: str) -> Awaitable[Any]: ...
    def query(
        self,
        request: Mapping[str, Any] | None = None,
        *,
        where: Mapping[str, Any] = ...,
        order_by: str | list[dict[str, Any]] = ...,
        order_direction: Literal["asc", "desc"] = ...,
        limit: int = ...,
        offset: int = ...,
        fields: list[str] = ...,
        expand: list[str] | Mapping[str, Mapping[str, Any]] = ...,
        counts: Mapping[str, Mapping[str, Any]] = ...,
        with_sort: bool = ...,
        cursor: str = ...,
        count: bool = ...,
    ) -> Awaitable[Any]: ...

class Members(Protocol):
    def list(
        self,
        *,
        search: str = ...,
        is_guest: bool = ...,
        is_active: bool = ...,
        email: str = ...,
        role: str = ...,
        team_id: str = ...,
        provider: str = ...,
        factor: Literal["totp", "passkey", "recovery_code"] = ...,
        created_after: str = ...,
        active_after: str = ...,
        limit: int = ...,
        offset: int = ...,
    ) -> Awaitable[Any]: ...
    def get(self, member: str) -> Awaitable[Any]: ...
    def update(self, member: str, changes: Mapping[str, Any]) -> Awaitable[Any]: ...

class Files(Protocol):
    def list(
        self, *, parent_id: str = ..., search: str = ..., created_by: str = ..., limit: int = ..., offset: int = ...
    ) -> Awaitable[Any]: ...
    def get(self, path: str) -> Awaitable[Any]: ...
    def delete(self, file: str) -> Awaitable[Any]: ...
    def read(self, path: str) -> Awaitable[bytes]: ...
    def write(self, path: str, data: str | bytes, type: str = ...) -> Awaitable[Any]: ...

class Functions(Protocol):
    def invoke(self, name: str, payload: Mapping[str, Any] | None = None) -> Awaitable[Any]: ...

class Workflows(Protocol):
    def execute(self, workflow: str, input: Mapping[str, Any] | None = None) -> Awaitable[Any]: ...

class Api(Protocol):
    members: Members
    functions: Functions
    workflows: Workflows
    def fetch(
        self,
        path: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | str | None = None,
        json: Any = None,
    ) -> Awaitable[Response]: ...
    def rows(self, table: str) -> Rows: ...
    def table(self, table: str) -> Awaitable[Any]: ...
    def view(self, name: str, params: Mapping[str, Any] | None = None) -> Awaitable[dict[str, Any]]: ...
    def files(self, storage: str) -> Files: ...

class Log(Protocol):
    def debug(self, *parts: object) -> None: ...
    def info(self, *parts: object) -> None: ...
    def warn(self, *parts: object) -> None: ...
    def error(self, *parts: object) -> None: ...

class Context(Protocol):
    api: Api
    as_caller: Api | None
    def as_member(self, member: str) -> Api: ...
    env: Mapping[str, str]
    log: Log
    headers: Mapping[str, str]
    method: str
    caller: dict[str, Any]
    claims: dict[str, Any] | None
    trigger: dict[str, Any]
    execution_id: str
    function_id: str
    function_name: str
    version: int | str
    app_id: str
    deadline: int
    idempotency_key: str
    attempt: int
    raw_body: str
    raw_body_base64: str
    query: dict[str, str]
    def token(self) -> Awaitable[str]:
        """Return a token for libraries that call the API over HTTP, with the scopes of `api`.

        It is valid until this call ends, and needs an `egress` that permits the server's address.
        """
