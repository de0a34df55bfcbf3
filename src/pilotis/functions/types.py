"""Request and response types of functions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal, get_args
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from pilotis.functions.runtime.build import Package
from pilotis.http.api.json_schemas import JsonObject
from pilotis.http.api.schemas import Paging

RuntimeName = Literal["javascript", "python"]
InvokeAccess = Literal["Public", "AppMember", "Secret"]
EgressMode = Literal["none", "allowlist", "public"]
Scope = Literal[
    "rows:read",
    "rows:write",
    "tables:read",
    "tables:write",
    "members:read",
    "members:write",
    "members:act",
    "files:read",
    "files:write",
    "functions:invoke",
    "workflows:execute",
    "channels:send",
    "mail:send",
]
DEFAULT_SCOPES: list[Scope] = ["rows:read", "rows:write", "files:read", "files:write", "members:read"]
VersionStatus = Literal["queued", "building", "ready", "failed", "expired", "draft"]
ExecutionStatus = Literal["success", "error", "timeout"]
LogLevel = Literal["debug", "info", "warn", "error"]
FunctionName = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9-]{0,62}$", examples=["send-receipt"])]
Description = Annotated[str, msgspec.Meta(max_length=1000)]
Entrypoint = Annotated[str, msgspec.Meta(min_length=1, max_length=255, examples=["index.ts"])]
OAuthScope = Annotated[
    str, msgspec.Meta(max_length=64, pattern=r"^[\x21\x23-\x5B\x5D-\x7E]+$", examples=["orders:read"])
]
Scopes = Annotated[list[Scope], msgspec.Meta(max_length=len(get_args(Scope)))]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]
MemoryMb = Annotated[int, msgspec.Meta(ge=32, le=4096)]
Host = Annotated[str, msgspec.Meta(min_length=1, max_length=260, examples=["api.example.com"])]
Value = Annotated[str, msgspec.Meta(max_length=32 * 1024)]
AnyJson = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"description": "Any JSON value."})]


class Egress(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Where a function may connect to: nowhere, a list of hosts, or any public address."""

    mode: EgressMode = "none"
    hosts: Annotated[list[Host], msgspec.Meta(max_length=100)] = []


class NewFunction(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A function to create. Its code is deployed afterwards, as a version.

    `oauth_scope` lets other programs call it with an OAuth access token of that scope.
    """

    name: FunctionName
    runtime: RuntimeName
    description: Description = ""
    entrypoint: Entrypoint | None = None
    invoke_access: InvokeAccess = "Public"
    oauth_scope: OAuthScope | None = None
    scopes: Scopes = msgspec.field(default_factory=DEFAULT_SCOPES.copy)
    timeout_seconds: Seconds | None = None
    memory_mb: MemoryMb | None = None
    egress: Egress = msgspec.field(default_factory=Egress)


class FunctionChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The changes to a function; absent fields keep their values."""

    name: FunctionName | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    entrypoint: Entrypoint | UnsetType | None = UNSET
    invoke_access: InvokeAccess | UnsetType = UNSET
    oauth_scope: OAuthScope | UnsetType | None = UNSET
    scopes: Scopes | UnsetType = UNSET
    timeout_seconds: Seconds | UnsetType = UNSET
    memory_mb: MemoryMb | UnsetType = UNSET
    egress: Egress | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET


class Function(msgspec.Struct, kw_only=True):
    """A function; `active_version` is null until a version is deployed."""

    id: UUID
    app_id: UUID
    name: str
    description: str
    runtime: RuntimeName
    entrypoint: str | None
    invoke_access: InvokeAccess
    oauth_scope: str | None
    scopes: list[str]
    timeout_seconds: float
    memory_mb: int
    egress: Egress
    is_active: bool
    active_version: int | None
    latest_version: int
    created_at: str
    updated_at: str


class FunctionQuery(Paging, forbid_unknown_fields=True):
    """The filter of functions; `search` is a part of the name."""

    search: str = ""


class FunctionDeletion(msgspec.Struct, forbid_unknown_fields=True):
    """Whether to delete a function although workflows call it."""

    force: bool = False


class NewVersion(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The files of a version by path; `activate` makes it the active version once it is ready."""

    files: dict[str, str]
    entrypoint: Entrypoint | None = None
    message: Annotated[str, msgspec.Meta(max_length=500)] = ""
    activate: bool = True


class NewDraft(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The files of a draft by path."""

    files: dict[str, str]
    entrypoint: Entrypoint | None = None


class FunctionVersion(msgspec.Struct, kw_only=True):
    """A version of a function; `version` is `draft` for a draft."""

    id: UUID
    function_id: UUID
    version: int | str
    status: VersionStatus
    runtime_version: str
    entrypoint: str
    source_bytes: int
    bundle_bytes: int
    sha256: str
    packages: list[Package]
    warnings: list[str]
    error: str | None
    message: str
    created_by: str | None
    created_at: str
    ready_at: str | None
    is_active: bool


class FunctionVersionDetails(FunctionVersion, kw_only=True):
    """A version with its build log."""

    build_log: str


class FunctionSource(msgspec.Struct):
    """The files of a version by their paths."""

    files: dict[str, str]


class FunctionDraft(msgspec.Struct):
    """The files of the caller's draft by their paths, and when it was stored; both are null without a draft."""

    files: dict[str, str] | None
    stored_at: str | None


class InvokeRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A call: `payload` is the object passed to the function, `timeout` its time limit in seconds."""

    # Payloads are not stored, so they may contain any character.
    allows_nul: ClassVar[bool] = True

    payload: JsonObject | UnsetType = UNSET
    timeout: Annotated[float, msgspec.Meta(gt=0)] | UnsetType = UNSET


class InvocationResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The outcome of a call; `duration` is in milliseconds."""

    success: bool
    execution_id: UUID
    result: AnyJson
    duration: float
    status: ExecutionStatus
    error: str | UnsetType = UNSET
    error_code: str | UnsetType = UNSET


class WebhookRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A request of another service, as the first function of a triggered workflow receives it."""

    method: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{1,10}$")] = "POST"
    headers: Annotated[dict[str, str], msgspec.Meta(max_length=100)] = {}
    body: str | None = None
    body_base64: str | None = None


class ConsoleInvokeRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A call from the console: of the active version, another version, or the caller's `draft`."""

    allows_nul: ClassVar[bool] = True

    payload: JsonObject | UnsetType = UNSET
    version: int | Literal["draft"] | None = None
    timeout: Annotated[float, msgspec.Meta(gt=0)] | UnsetType = UNSET
    as_webhook: WebhookRequest | None = None


class LogLine(msgspec.Struct, kw_only=True):
    """A line of the log of an execution."""

    execution_id: UUID
    index: int
    time: str
    level: LogLevel
    message: str


class Rejection(msgspec.Struct):
    """How a function in the webhook form would have rejected the request."""

    status: int
    message: str


class ConsoleInvocationResult(InvocationResult, kw_only=True, omit_defaults=True):
    """The outcome of a call with its log, and how it got its sandbox."""

    logs: list[LogLine]
    start: str | None = None
    rejected: Rejection | UnsetType = UNSET


class Caller(msgspec.Struct):
    """The caller."""

    type: str
    id: str | None


class Execution(msgspec.Struct, kw_only=True):
    """The record of a call; times are in milliseconds. `error` and `logs` are null for viewers."""

    id: UUID
    function_id: UUID
    version: int | str
    status: ExecutionStatus
    trigger: str
    caller: Caller
    start: str | None
    duration: float
    queue_ms: float
    load_ms: float
    cpu_ms: float
    peak_memory_mb: float | None
    error: str | None
    error_code: str | None
    request_id: str | None
    workflow_execution_id: UUID | None
    step_id: str | None
    log_lines: int
    log_dropped: int
    started_at: str
    finished_at: str


class ExecutionDetails(Execution, kw_only=True):
    """The record of a call with its log."""

    logs: list[LogLine] | None


class ExecutionQuery(Paging, forbid_unknown_fields=True):
    """The filter of executions, newest first."""

    status: ExecutionStatus | None = None
    version: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class LogQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The filter of log lines, newest first; `after` is the `next` of the previous page."""

    level: LogLevel | None = None
    search: str = ""
    execution_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: Annotated[int, msgspec.Meta(ge=1)] = 100
    after: str | None = None


class LogPage(msgspec.Struct):
    """Lines of the log; `next` is null on the last page."""

    lines: list[LogLine]
    next: str | None


class FunctionStatsQuery(msgspec.Struct, kw_only=True, rename={"from_": "from"}, forbid_unknown_fields=True):
    """The period, by default the last 24 hours, and the step in seconds."""

    from_: datetime | None = None
    to: datetime | None = None
    step: Annotated[int, msgspec.Meta(ge=60, le=7 * 24 * 3600)] = 3600


class StatsBucket(msgspec.Struct, kw_only=True):
    """The calls that ended within a step; p50 and p99 are in milliseconds, accurate within a factor of two."""

    time: str
    success: int
    error: int
    timeout: int
    p50: float | None
    p99: float | None


class FunctionStats(msgspec.Struct):
    """The calls of a function over time."""

    buckets: list[StatsBucket]


class Variable(msgspec.Struct, kw_only=True):
    """A variable without its value."""

    name: str
    scope: Literal["function", "app"]
    updated_at: str
    updated_by: str | None


class VariableList(msgspec.Struct):
    """Variables by name."""

    variables: list[Variable]


class NewValue(msgspec.Struct, forbid_unknown_fields=True):
    """The value of a variable."""

    value: Value


class VariableChanges(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Variables to set and to delete, atomically."""

    set: dict[str, Value] = {}
    delete: list[str] = []


class DeletedVariable(msgspec.Struct):
    """The name of the deleted variable."""

    message: str
    id: str


class NewTrigger(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A trigger to create: a schedule by `cron`, or events of these types."""

    type: Literal["schedule", "event"]
    cron: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    timezone: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    events: Annotated[list[str], msgspec.Meta(min_length=1, max_length=100)] | None = None
    table_id: UUID | None = None
    storage_id: UUID | None = None
    batch: bool = False
    is_active: bool = True


class TriggerChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The changes to a trigger; absent fields keep their values. Its type cannot change."""

    cron: Annotated[str, msgspec.Meta(max_length=200)] | UnsetType = UNSET
    timezone: Annotated[str, msgspec.Meta(max_length=100)] | UnsetType | None = UNSET
    events: Annotated[list[str], msgspec.Meta(min_length=1, max_length=100)] | UnsetType = UNSET
    table_id: UUID | UnsetType | None = UNSET
    storage_id: UUID | UnsetType | None = UNSET
    batch: bool | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET


class Trigger(msgspec.Struct, kw_only=True):
    """A trigger of a function."""

    id: UUID
    function_id: UUID
    type: Literal["schedule", "event"]
    is_active: bool
    cron: str | None
    timezone: str | None
    next_run_at: str | None
    events: list[str] | None
    table_id: UUID | None
    storage_id: UUID | None
    batch: bool


class RuntimeState(msgspec.Struct, kw_only=True):
    """A runtime of this server, and why it is unavailable or has a weaker isolation."""

    name: RuntimeName
    version: str | None
    is_available: bool
    isolation: str | None
    reason: str | None


class RuntimeStates(msgspec.Struct):
    """The state of this server's runtimes."""

    isolation: str | None
    runtimes: list[RuntimeState]


class RequestedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a request has led to, with the name of its function; `duration` is in milliseconds."""

    execution_id: UUID
    function_id: UUID
    name: str
    trigger: str
    status: ExecutionStatus
    error_code: str | None
    workflow_execution_id: UUID | None
    started_at: datetime
    duration: float
