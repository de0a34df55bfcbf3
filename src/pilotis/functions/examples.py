"""Examples of functions for the reference."""

from pilotis.http.api.example import Example

_ID = "0199c0de-4f1c-72b7-8d9e-c2b7d9e60b00"
_TIME = "2026-01-31T09:30:00.000Z"
_SOURCE = "export default (payload) => `Hello, ${payload.name}!`;\n"
_ONE = "/v1/apps/:app_id/functions/:function_id"

FUNCTION = {
    "id": _ID,
    "app_id": _ID,
    "name": "greet",
    "description": "",
    "runtime": "javascript",
    "entrypoint": None,
    "invoke_access": "Public",
    "oauth_scope": None,
    "scopes": ["files:read", "files:write", "members:read", "rows:read", "rows:write"],
    "timeout_seconds": 30.0,
    "memory_mb": 128,
    "egress": {"mode": "none", "hosts": []},
    "is_active": True,
    "active_version": 1,
    "latest_version": 1,
    "created_at": _TIME,
    "updated_at": _TIME,
}
VERSION = {
    "id": _ID,
    "function_id": _ID,
    "version": 1,
    "status": "ready",
    "runtime_version": "…",
    "entrypoint": "index.ts",
    "source_bytes": 55,
    "bundle_bytes": 55,
    "sha256": "…",
    "packages": [],
    "warnings": [],
    "error": None,
    "message": "",
    "created_by": _ID,
    "created_at": _TIME,
    "ready_at": _TIME,
    "is_active": True,
}
RESULT = {"success": True, "execution_id": _ID, "result": "Hello, Ada!", "duration": 0.2, "status": "success"}
EXECUTION = {
    "id": _ID,
    "function_id": _ID,
    "version": 1,
    "status": "success",
    "trigger": "console",
    "caller": {"type": "console_user", "id": _ID},
    "start": "…",
    "duration": 0.2,
    "queue_ms": 0.1,
    "load_ms": 25.0,
    "cpu_ms": 0.1,
    "peak_memory_mb": 60.5,
    "error": None,
    "error_code": None,
    "request_id": _ID,
    "workflow_execution_id": None,
    "step_id": None,
    "log_lines": 0,
    "log_dropped": 0,
    "started_at": _TIME,
    "finished_at": _TIME,
}
VARIABLE = {"name": "GREETING", "scope": "function", "updated_at": _TIME, "updated_by": _ID}
APP_VARIABLE = VARIABLE | {"scope": "app"}
TRIGGER = {
    "id": _ID,
    "function_id": _ID,
    "type": "schedule",
    "is_active": True,
    "cron": "0 4 * * *",
    "timezone": "Europe/Vienna",
    "next_run_at": _TIME,
    "events": None,
    "table_id": None,
    "storage_id": None,
    "batch": False,
}
_PAGE = {"total_count": 1, "limit": 20, "offset": 0}

EXAMPLES = [
    Example(
        route="POST /v1/public/functions/:function_id/invoke",
        operation="invokeFunction",
        body={"payload": {"name": "Ada"}},
        answer=RESULT,
    ),
    Example(
        route="POST /v1/apps/:app_id/functions",
        operation="createFunction",
        body={"name": "greet", "runtime": "javascript"},
        answer=FUNCTION | {"active_version": None, "latest_version": 0},
    ),
    Example(
        route="GET /v1/apps/:app_id/functions",
        operation="listFunctions",
        answer={"data": [FUNCTION], **_PAGE},
    ),
    Example(route=f"GET {_ONE}", operation="getFunction", answer=FUNCTION),
    Example(
        route=f"PATCH {_ONE}",
        operation="updateFunction",
        body={"timeout_seconds": 5},
        answer=FUNCTION | {"timeout_seconds": 5.0},
    ),
    Example(route=f"DELETE {_ONE}", operation="deleteFunction", answer={"message": "Function deleted.", "id": _ID}),
    Example(
        route=f"POST {_ONE}/versions",
        operation="deployFunction",
        body={"files": {"index.ts": _SOURCE}},
        answer=VERSION | {"version": 2},
    ),
    Example(
        route=f"GET {_ONE}/versions",
        operation="listFunctionVersions",
        answer={"data": [VERSION], **_PAGE},
    ),
    Example(
        route=f"GET {_ONE}/versions/:version",
        operation="getFunctionVersion",
        path={"version": "1"},
        answer=VERSION | {"build_log": ""},
    ),
    Example(
        route=f"GET {_ONE}/versions/:version/source",
        operation="getFunctionSource",
        path={"version": "1"},
        answer={"files": {"index.ts": _SOURCE}},
    ),
    Example(
        route=f"POST {_ONE}/versions/:version/activate",
        operation="activateFunctionVersion",
        path={"version": "1"},
        answer=FUNCTION,
    ),
    Example(
        route=f"PUT {_ONE}/draft",
        operation="replaceFunctionDraft",
        body={"files": {"index.ts": _SOURCE}},
        answer=VERSION | {"version": "draft", "status": "draft", "is_active": False},
    ),
    Example(
        route=f"GET {_ONE}/draft",
        operation="getFunctionDraft",
        answer={"files": None, "stored_at": None},
    ),
    Example(
        route=f"POST {_ONE}/invoke",
        operation="invokeFunctionVersion",
        body={"payload": {"name": "Ada"}, "version": 1},
        answer=RESULT | {"logs": [], "start": "…"},
    ),
    Example(route=f"GET {_ONE}/env", operation="listFunctionVariables", answer={"variables": [VARIABLE]}),
    Example(
        route=f"PUT {_ONE}/env/:variable",
        operation="replaceFunctionVariable",
        path={"variable": "GREETING"},
        body={"value": "Good morning"},
        answer=VARIABLE,
    ),
    Example(
        route=f"PATCH {_ONE}/env",
        operation="updateFunctionVariables",
        body={"set": {"GREETING": "Good morning"}, "delete": []},
        answer={"variables": [VARIABLE]},
    ),
    Example(
        route=f"DELETE {_ONE}/env/:variable",
        operation="deleteFunctionVariable",
        path={"variable": "GREETING"},
        answer={"message": "Variable deleted.", "id": "GREETING"},
    ),
    Example(route="GET /v1/apps/:app_id/env", operation="listAppVariables", answer={"variables": [APP_VARIABLE]}),
    Example(
        route="PUT /v1/apps/:app_id/env/:variable",
        operation="replaceAppVariable",
        path={"variable": "GREETING"},
        body={"value": "Good morning"},
        answer=APP_VARIABLE,
    ),
    Example(
        route="DELETE /v1/apps/:app_id/env/:variable",
        operation="deleteAppVariable",
        path={"variable": "GREETING"},
        answer={"message": "Variable deleted.", "id": "GREETING"},
    ),
    Example(
        route=f"GET {_ONE}/executions",
        operation="listFunctionExecutions",
        answer={"data": [EXECUTION], **_PAGE},
    ),
    Example(
        route=f"GET {_ONE}/executions/:execution_id",
        operation="getFunctionExecution",
        answer=EXECUTION | {"logs": []},
    ),
    Example(route=f"GET {_ONE}/logs", operation="listFunctionLogs", answer={"lines": ["…"], "next": None}),
    Example(
        route=f"GET {_ONE}/logs/stream",
        operation="getFunctionLogStream",
        answer="retry: 1000\n\n",
    ),
    Example(route=f"GET {_ONE}/stats", operation="getFunctionStats", answer={"buckets": ["…"]}),
    Example(
        route=f"POST {_ONE}/triggers",
        operation="createTrigger",
        body={"type": "schedule", "cron": "0 4 * * *", "timezone": "Europe/Vienna"},
        answer=TRIGGER,
    ),
    Example(route=f"GET {_ONE}/triggers", operation="listTriggers", answer={"data": [TRIGGER], **_PAGE}),
    Example(
        route=f"PATCH {_ONE}/triggers/:trigger_id",
        operation="updateTrigger",
        body={"is_active": False},
        answer=TRIGGER | {"is_active": False, "next_run_at": None},
    ),
    Example(
        route=f"GET {_ONE}/triggers/:trigger_id/failures",
        operation="listTriggerFailures",
        path={"trigger_id": "$FAILED_TRIGGER_ID"},
        answer={
            "data": [
                {
                    "job_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38",
                    "kind": "functions.call",
                    "subject": TRIGGER["id"],
                    "attempts": 6,
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "ended_at": "2026-01-31T10:45:00.000Z",
                    "error": {"code": "TIMEOUT", "message": "TimeoutError: The job exceeded its time limit."},
                }
            ],
            **_PAGE,
        },
    ),
    Example(
        route=f"POST {_ONE}/triggers/:trigger_id/failures/:job_id/retry",
        operation="retryTriggerFailure",
        path={"job_id": "$FAILED_CALL_ID"},
        answer={"message": "The call is due again.", "id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"},
    ),
    Example(
        route=f"DELETE {_ONE}/triggers/:trigger_id",
        operation="deleteTrigger",
        answer={"message": "Trigger deleted.", "id": _ID},
    ),
    Example(
        route="GET /v1/apps/:app_id/runtime",
        operation="getRuntime",
        answer={
            "isolation": "bwrap…",
            "runtimes": [
                {
                    "name": "javascript",
                    "version": "…",
                    "is_available": True,
                    "isolation": "bwrap…",
                    "reason": None,
                },
                {"name": "python", "version": "…", "is_available": True, "isolation": "bwrap…", "reason": None},
            ],
        },
    ),
]
