"""The types of requests and answers about workflows."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from pilotis.http.api.json_schemas import JsonObject
from pilotis.http.api.schemas import Paging, UuidText

ExecutionType = Literal["sequential", "parallel", "conditional"]
StepType = Literal["function", "condition", "parallel", "merge", "agent"]
OnError = Literal["stop", "continue", "retry"]
MergeMode = Literal["object", "array", "deep"]
ExecutionStatus = Literal["pending", "running", "completed", "failed", "cancelled", "timeout"]
StepStatus = Literal["running", "completed", "failed", "timeout", "cancelled", "skipped"]
TriggerType = Literal["manual", "schedule", "webhook", "function", "retry"]

Name = Annotated[str, Meta(min_length=1, max_length=100, examples=["nightly-report"])]
Description = Annotated[str, Meta(max_length=500)]
StepId = Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,64}$", examples=["check"])]
FunctionReference = Annotated[str, Meta(min_length=1, max_length=64, description="A function's id or name.")]
Seconds = Annotated[float, Meta(ge=0, le=1800)]
Tool = dict[str, Any]
AnyJson = Annotated[msgspec.Raw, Meta(extra_json_schema={"description": "Any JSON value."})]


ToolName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class AgentTool(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A function that an agent may call. `parameters` is the JSON Schema of its arguments."""

    function_id: FunctionReference
    name: ToolName = ""
    description: Annotated[str, Meta(max_length=2000)] = ""
    parameters: dict[str, Any] | None = None


class AgentConfig(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """How an agent works. `prompt` is a template such as `Answer {{ $.input.question }}`; by default the step's input.

    `max_tokens` bounds all its turns together, `max_cost` what they cost where the provider's prices are known.
    """

    model: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    system_prompt: Annotated[str, Meta(max_length=20_000)] = ""
    prompt: Annotated[str, Meta(max_length=20_000)] | None = None
    tools: Annotated[list[AgentTool], Meta(max_length=32)] = []
    output_schema: dict[str, Any] | None = None
    max_turns: Annotated[int, Meta(ge=1, le=25)] = 8
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] = 50_000
    max_cost: Annotated[float, Meta(gt=0, le=10_000)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    tool_choice: Literal["auto", "required", "none"] = "auto"


class Branch(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A branch of a parallel step: its steps run one after another."""

    id: StepId
    steps: Annotated[list[Step], Meta(max_length=100)]


class Step(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A step. `step_type` determines which fields apply; see the guide."""

    step_type: StepType
    id: StepId = ""
    name: Annotated[str, Meta(max_length=100)] = ""
    function_id: FunctionReference | None = None
    function_version: Annotated[int, Meta(ge=1)] | None = None
    order: Annotated[float, Meta(ge=-1e9, le=1e9)] | None = None
    on_error: OnError = "stop"
    retry_count: Annotated[int, Meta(ge=0, le=5)] | None = None
    retry_delay: Annotated[float, Meta(ge=0, le=60_000)] | None = None
    input_mapping: dict[str, Any] | None = None
    timeout_seconds: Seconds = 0
    condition: dict[str, Any] | None = None
    on_true: Annotated[list[StepId], Meta(max_length=100)] | None = None
    on_false: Annotated[list[StepId], Meta(max_length=100)] | None = None
    branches: Annotated[list[Branch], Meta(min_length=1, max_length=100)] | None = None
    sources: Annotated[list[StepId], Meta(max_length=100)] | None = None
    mode: MergeMode = "object"
    items: Annotated[str, Meta(min_length=1, max_length=500, examples=["$.input.orders"])] | None = None
    config: AgentConfig | None = None

    @property
    def tries(self) -> int:
        """How often the step is run at most within an attempt of the execution."""
        return 1 + (self.retry_count if self.retry_count is not None else 3 if self.on_error == "retry" else 0)


class NewWorkflow(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The definition of a workflow. `timeout_seconds` 0 is the server's maximum."""

    name: Name
    description: Description = ""
    execution_type: ExecutionType = "sequential"
    steps: Annotated[list[Step], Meta(max_length=100)] = []
    schedule_cron: Annotated[str, Meta(max_length=200, examples=["30 2 * * *"])] | None = None
    schedule_timezone: Annotated[str, Meta(max_length=100, examples=["Europe/Vienna"])] | None = None
    timeout_seconds: Seconds = 0
    max_retries: Annotated[int, Meta(ge=0, le=10)] = 0
    initial_input: dict[str, Any] | None = None
    is_active: bool | None = None
    max_concurrency: Annotated[int, Meta(ge=0, le=1000)] = 0
    on_overlap: Literal["allow", "skip", "queue"] = "allow"


class WorkflowChanges(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Whether a workflow can be started, by requests and by its schedule. This makes no version."""

    is_active: bool


class LastExecution(msgspec.Struct, frozen=True):
    """The newest execution of a workflow."""

    id: UUID
    status: ExecutionStatus
    started_at: str | None


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow in its current version. `next_run_at` is null unless a schedule is active."""

    id: UUID
    app_id: UUID
    name: str
    description: str
    execution_type: ExecutionType
    steps: list[Step]
    schedule_cron: str | None
    schedule_timezone: str | None
    next_run_at: str | None
    timeout_seconds: float
    max_retries: int
    initial_input: JsonObject
    is_active: bool
    max_concurrency: int
    on_overlap: str
    has_trigger: bool
    version: int
    created_at: str
    updated_at: str
    last_execution: LastExecution | None


class ExecutionError(msgspec.Struct, frozen=True):
    """The reason why an execution or a step failed. `step_id` is the step that failed; null if none did."""

    code: str
    message: str | None
    step_id: str | None = None


class ExecutionProgress(msgspec.Struct, frozen=True):
    """How many steps of the definition have completed or were skipped, and how many there are."""

    completed: int
    total: int


class StepRun(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a step. `index` is its place in the plan; an item of a parallel step is `p[3]` under `p`."""

    step_id: str
    parent_id: str | None
    index: int
    order: float
    step_type: StepType
    name: str
    status: StepStatus
    attempt: int
    try_: int = msgspec.field(name="try")
    function_id: UuidText | None
    function_version: int | None
    function_execution_id: UUID | None
    input: AnyJson
    output: AnyJson
    error: ExecutionError | None
    queue_ms: float | None
    duration: float | None
    started_at: str | None
    finished_at: str | None
    is_hidden: bool = False


class WorkflowExecution(msgspec.Struct, frozen=True, kw_only=True):
    """An execution. `duration` is in milliseconds. Viewers do not see inputs and outputs: `is_hidden` is then true."""

    id: UUID
    workflow_id: UUID
    workflow_version: int
    status: ExecutionStatus
    trigger: JsonObject
    input: AnyJson
    output: AnyJson
    error: ExecutionError | None
    attempt: int
    cancel_requested: bool
    failed_steps: int
    progress: ExecutionProgress
    created_at: str
    started_at: str | None
    finished_at: str | None
    duration: float | None
    deadline_at: str | None
    request_id: str | None
    is_hidden: bool = False


class WorkflowExecutionDetails(WorkflowExecution, frozen=True, kw_only=True):
    """An execution with every try of its steps."""

    steps: list[StepRun]


class ExecuteRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The input of an execution; by default the workflow's `initial_input`."""

    input: dict[str, Any] | None = None


class Accepted(msgspec.Struct, frozen=True):
    """An execution that will run."""

    execution_id: UUID
    workflow_id: UUID
    status: ExecutionStatus


class Replay(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The first step and the definition of the new execution.

    `failed_step` copies the outputs of the completed steps; `current` is the workflow's newest version.
    """

    from_: Literal["start", "failed_step"] = msgspec.field(name="from", default="start")
    version: Literal["same", "current"] = "same"


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an execution's time."""

    step_id: str
    parent_id: str | None
    try_: int = msgspec.field(name="try")
    status: StepStatus
    queued_at: str | None
    started_at: str | None
    finished_at: str | None
    kind: Literal["function", "agent_turn", "tool", "wait", "condition"]
    label: str


class Timeline(msgspec.Struct, frozen=True):
    """The parts of an execution's time, in the order of their start."""

    spans: list[Span]


class FieldError(msgspec.Struct, frozen=True):
    """An error in a field of a definition."""

    field: str | None
    code: str
    message: str


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a definition could be saved, and when its schedule would be due next."""

    is_valid: bool
    errors: list[FieldError]
    warnings: list[str]
    next_runs: list[str]


class ExecutionQuery(Paging, forbid_unknown_fields=True):
    """The executions to list. `since` and `until` are about `created_at`."""

    status: ExecutionStatus | None = None
    trigger: TriggerType | None = None
    since: datetime | None = None
    until: datetime | None = None


TriggerMethod = Literal["POST", "GET", "PUT"]


class Dedupe(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What names a delivery: a header, or a path into its JSON body.

    By default it is the header `webhook-id`, `idempotency-key`, or `ce-id` with `ce-source`.
    """

    header: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,100}$", examples=["X-GitHub-Delivery"])] | None = None
    path: Annotated[str, Meta(min_length=3, max_length=200, examples=["$.id"])] | None = None


class WorkflowTriggerSettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Settings of a trigger URL; what is absent stays. With `dedupe` null repeated deliveries run again."""

    is_active: bool | UnsetType = UNSET
    dedupe: Dedupe | UnsetType | None = UNSET
    methods: Annotated[list[TriggerMethod], Meta(min_length=1, max_length=3)] | UnsetType = UNSET


class WorkflowTrigger(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger URL. Anyone who knows it can start the workflow; after a rotation the one before works for a while."""

    trigger_url: str
    is_active: bool
    dedupe: Dedupe | None
    methods: list[TriggerMethod]
    created_at: str
    last_called_at: str | None
    previous_until: str | None


class TriggerRotation(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """For how many seconds the URL before still works."""

    grace_seconds: Annotated[int, Meta(ge=0, le=604_800)] = 86_400


class Triggered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The execution that a request has started, or one that an earlier request of the same delivery has started."""

    execution_id: UUID
    status: ExecutionStatus
    duplicate: bool = False


class ModelPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a model costs for a million tokens, in any currency."""

    input: Annotated[float, Meta(ge=0, le=1_000_000)]
    output: Annotated[float, Meta(ge=0, le=1_000_000)]


HeaderName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,100}$")]
HeaderValue = Annotated[str, Meta(pattern=r"^[ -~]{0,2000}$")]


class AiProviderSettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An API that speaks OpenAI's chat completions. An `api_key` that is absent stays while `base_url` does."""

    base_url: Annotated[str, Meta(min_length=8, max_length=500, examples=["https://api.example.com/v1"])]
    api_key: Annotated[str, Meta(pattern=r"^[!-~]{1,500}$")] | UnsetType | None = UNSET
    default_model: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    headers: Annotated[dict[HeaderName, HeaderValue], Meta(max_length=20)] = {}
    prices: Annotated[dict[str, ModelPrice], Meta(max_length=100)] = {}


class AiProvider(msgspec.Struct, frozen=True, kw_only=True):
    """The provider of an app's models, without its key and the values of its headers; null if there is none."""

    base_url: str | None
    has_api_key: bool
    default_model: str | None
    header_names: list[str]
    prices: dict[str, ModelPrice]


class DeletedAiProvider(msgspec.Struct, frozen=True):
    """An app whose provider was deleted."""

    message: str
    id: UUID


class RequestedExecution(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that a request has led to, with the name of its workflow, and the code of its error."""

    execution_id: UUID
    workflow_id: UUID
    name: str
    trigger_type: str
    status: ExecutionStatus
    error_code: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
