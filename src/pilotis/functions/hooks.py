"""Functions as hooks of accounts: called for a decision, within five seconds, and for sending mails."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pilotis.functions.calls import CallOrigin, Calls
from pilotis.http.api.principals import AppInfo
from pilotis.kit import json
from pilotis.kit.account_settings import HookName
from pilotis.kit.errors import PilotisError

_SECONDS = 5.0
_MAX_RESULT = 64 * 1024


class HookCallFailedError(PilotisError):
    """502: a hook's call failed; the message has its `error_code`. Only seen by what asks the hook."""

    status = 502
    code = "FUNCTION_FAILED"


async def run(
    calls: Calls, app: AppInfo, function_id: UUID, hook: HookName, payload: dict[str, Any], request_id: str | None
) -> Any:
    """Call the function that is bound to a hook, and return its result; raises `PilotisError`."""
    row = await calls.find(app.app_id, str(function_id))
    origin = CallOrigin(type="hook", id=hook, trigger="hook", depth=1, request_id=request_id)
    ended = await calls.invoke(app, row, json.encode(payload), origin, seconds=_SECONDS)
    outcome = ended.outcome
    if outcome.status != "success" or len(outcome.result) > _MAX_RESULT:
        raise HookCallFailedError(outcome.error_code or outcome.status)
    return json.decode(outcome.result)
