"""Request and response types of the console's own routes."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

import msgspec

from pilotis.accounts.passkeys.types import PasskeySignIn
from pilotis.plans.types import QuotaUse
from pilotis.user_accounts.types import UserSecondFactor
from pilotis.users.types import Email, Password


class ConsoleConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the console needs before sign-in.

    `assets` changes with the console's files; `setup_required` is true while there is no console user. With
    `sends_mail` forgotten passwords are reset by mail.
    """

    version: str
    assets: str
    base_url: str
    setup_required: bool
    password_min_length: int
    password_max_length: int
    sends_mail: bool


class SessionStart(msgspec.Struct, forbid_unknown_fields=True):
    """A console user's credentials. With `remember`, the session outlives the browser."""

    email: Email
    password: Password
    remember: bool = False


class SessionSecondFactor(UserSecondFactor, forbid_unknown_fields=True, kw_only=True):
    """The ticket of a sign-in, and its second factor. With `remember`, the session outlives the browser."""

    remember: bool = False


class SessionPasskey(PasskeySignIn, forbid_unknown_fields=True, kw_only=True):
    """A passkey's answer with its ticket. With `remember`, the session outlives the browser."""

    remember: bool = False


class ConsoleSession(msgspec.Struct, frozen=True, kw_only=True):
    """A signed-in console user with an access token that is valid for `expires_in` seconds.

    `may_create_apps` is false for one who was invited only as a viewer.
    """

    user_id: UUID
    email: str
    access_token: str
    expires_in: int
    may_create_apps: bool


Severity = Literal["high", "medium", "low", "none"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of access to an app: how much the public can do, `none` if nothing, and a sentence about it.

    `code` is `SCHEMA`, `KEY`, `SIGN_UP`, `TABLE`, `SELF_PROMOTION`, `NO_CREATOR_BOUND`, `SLOW_RULE`, `PAGES` or
    `STORAGE`; `subject` is the id of the table or storage.
    """

    severity: Severity
    code: str
    subject: str | None
    message: str


class ExposureReport(msgspec.Struct, frozen=True):
    """The access that the public has to an app, most critical first."""

    findings: list[Finding]


class UsageQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The number of days, of which the last is today, in UTC."""

    days: Annotated[int, msgspec.Meta(ge=1, le=60)] = 30


class DayUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Activity of a day other than requests: calls of functions, executions, deliveries and deployments."""

    date: str
    calls: int = 0
    failed_calls: int = 0
    executions: int = 0
    failed_executions: int = 0
    deliveries: int = 0
    failed_deliveries: int = 0
    deployments: int = 0
    failed_deployments: int = 0


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """How many sites, functions, workflows and webhooks an app has, and what happened by day, oldest first.

    `plan` is the name of its plan, or of the plan of its parent; null if there is none. `quotas` are those of the
    plan, with what was used of each.
    """

    sites: int
    functions: int
    workflows: int
    webhooks: int
    by_day: list[DayUsage]
    plan: str | None
    quotas: list[QuotaUse]


class ContextEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A request, or what one has led to.

    `kind` tells what `id` and `target_id` name: `function` a call and its function, `workflow` an execution and its
    workflow, `delivery` a delivery and its webhook; a `request` is one of the log, with the function that it called.
    `name` is the request's method and route, else the name of the target, or a webhook's address. `detail` is the kind
    of actor of a request, the trigger of a call or an execution, the event's type of a delivery. `status` is the
    HTTP status of a request, else that of its record; `is_failed` tells what went wrong. `code` is the error's.
    `parent_id` is the workflow's execution of which a call is a step.
    """

    kind: Literal["request", "function", "workflow", "delivery"]
    id: str
    target_id: UUID | None
    parent_id: UUID | None = None
    name: str
    detail: str | None
    status: str
    is_failed: bool
    code: str | None
    time: str
    duration_ms: float | None


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded with a request's id, oldest first; `has_more` if there is more than is answered."""

    request_id: Annotated[str, msgspec.Meta(max_length=200)]
    entries: list[ContextEntry]
    has_more: bool


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """What needs attention in an app.

    `running` counts executions of workflows that have not ended, `failing` webhooks whose last delivery failed or that
    were disabled after failures, `dead_jobs` background jobs that failed permanently, `exposure` the findings of
    `GET …/exposure` with a high severity, `archives` those of the schedule that failed since the last one that did
    not, and `quotas` is 1 if a quota is used up past which the app stores nothing more.
    """

    running: int
    failing: int
    dead_jobs: int
    exposure: int
    archives: int
    quotas: int
