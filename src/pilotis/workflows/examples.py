"""Examples of workflows for the reference."""

from pilotis.http.api.example import Example

_ID = "0199c0de-4f1c-72b7-8d9e-c2b7d9e60b00"
_TIME = "2026-01-31T09:30:00.000Z"
_ALL = "/v1/apps/:app_id/workflows"
_ONE = f"{_ALL}/:workflow_id"
_EXECUTION = f"{_ONE}/executions/:execution_id"

STEPS = [
    {
        "step_type": "condition",
        "id": "is-large",
        "condition": {"$.input.total": {"$gte": 100}},
        "on_true": ["invoice"],
    },
    {"step_type": "merge", "id": "invoice", "input_mapping": {"amount": "$.input.total"}},
]
DEFINITION = {
    "name": "order-received",
    "steps": STEPS,
    "schedule_cron": "30 2 * * *",
    "schedule_timezone": "Europe/Vienna",
    "initial_input": {"total": 120},
}
WORKFLOW = {
    "id": _ID,
    "app_id": _ID,
    "name": "order-received",
    "description": "",
    "execution_type": "sequential",
    "steps": STEPS,
    "schedule_cron": "30 2 * * *",
    "schedule_timezone": "Europe/Vienna",
    "next_run_at": _TIME,
    "timeout_seconds": 0.0,
    "max_retries": 0,
    "initial_input": {"total": 120},
    "is_active": True,
    "max_concurrency": 0,
    "on_overlap": "allow",
    "has_trigger": False,
    "version": 1,
    "created_at": _TIME,
    "updated_at": _TIME,
    "last_execution": None,
}
ACCEPTED = {"execution_id": _ID, "workflow_id": _ID, "status": "pending"}
EXECUTION = {
    "id": _ID,
    "workflow_id": _ID,
    "workflow_version": 1,
    "status": "completed",
    "trigger": {"type": "manual", "user_id": _ID},
    "input": {"total": 120},
    "output": {"amount": 120},
    "error": None,
    "attempt": 1,
    "cancel_requested": False,
    "failed_steps": 0,
    "progress": {"completed": 2, "total": 2},
    "created_at": _TIME,
    "started_at": _TIME,
    "finished_at": _TIME,
    "duration": 4.2,
    "deadline_at": _TIME,
    "request_id": _ID,
    "is_hidden": False,
}
_PAGE = {"total_count": 1, "limit": 20, "offset": 0}
_OF_EXECUTION = {"execution_id": "$WORKFLOW_EXECUTION_ID"}
_WAITING = {"workflow_id": "$WAITING_WORKFLOW_ID", "execution_id": "$WAITING_EXECUTION_ID"}

EXAMPLES = [
    Example(route=f"POST {_ALL}", operation="createWorkflow", body=DEFINITION, answer=WORKFLOW),
    Example(route=f"GET {_ALL}", operation="listWorkflows", answer={"data": [WORKFLOW], **_PAGE}),
    Example(
        route=f"POST {_ALL}/validate",
        operation="validateWorkflow",
        body={"name": "nightly-report", "steps": [], "schedule_cron": "@daily"},
        answer={"is_valid": True, "errors": [], "warnings": [], "next_runs": ["…"]},
    ),
    Example(route=f"GET {_ONE}", operation="getWorkflow", answer=WORKFLOW),
    Example(
        route=f"PUT {_ONE}",
        operation="replaceWorkflow",
        body={"name": "order-received", "steps": STEPS, "description": "Invoices for large orders"},
        answer=WORKFLOW
        | {
            "description": "Invoices for large orders",
            "version": 2,
            "initial_input": {},
            "schedule_cron": None,
            "schedule_timezone": None,
            "next_run_at": None,
        },
    ),
    Example(
        route=f"PATCH {_ONE}",
        operation="updateWorkflow",
        body={"is_active": False},
        answer=WORKFLOW | {"is_active": False, "next_run_at": None},
    ),
    Example(route=f"DELETE {_ONE}", operation="deleteWorkflow", answer={"message": "Workflow deleted.", "id": _ID}),
    Example(
        route=f"GET {_ONE}/versions/:version",
        operation="getWorkflowVersion",
        path={"version": "1"},
        answer=WORKFLOW,
    ),
    Example(route=f"POST {_ONE}/execute", operation="runWorkflow", body={"input": {"total": 120}}, answer=ACCEPTED),
    Example(
        route=f"GET {_ONE}/executions",
        operation="listWorkflowExecutions",
        answer={"data": [EXECUTION], **_PAGE},
    ),
    Example(
        route=f"GET {_ONE}/executions/stream",
        operation="getWorkflowStream",
        answer='retry: 1000\n\nevent: snapshot\nid: 0\ndata: {"executions":[]}\n',
    ),
    Example(
        route=f"GET {_EXECUTION}/stream",
        operation="getWorkflowExecutionStream",
        path=_OF_EXECUTION,
        answer='retry: 1000\n\nevent: snapshot\nid: 4\ndata: {…}\n\nevent: end\ndata: {"status":"completed"}\n',
    ),
    Example(
        route=f"GET {_EXECUTION}",
        operation="getWorkflowExecution",
        path=_OF_EXECUTION,
        answer=EXECUTION | {"steps": ["…"]},
    ),
    Example(
        route=f"POST {_EXECUTION}/cancel",
        operation="cancelWorkflowExecution",
        path=_WAITING,
        answer={"id": _ID, "status": "…", "cancel_requested": True, "…": "…"},
    ),
    Example(
        route=f"POST {_EXECUTION}/replay",
        operation="replayWorkflowExecution",
        path=_OF_EXECUTION,
        body={"from": "failed_step", "version": "current"},
        answer=ACCEPTED,
    ),
    Example(
        route=f"GET {_EXECUTION}/timeline",
        operation="getWorkflowTimeline",
        path=_OF_EXECUTION,
        answer={"spans": ["…"]},
    ),
]

_TRIGGER = f"{_ONE}/trigger"
TRIGGER = {
    "trigger_url": "…",
    "is_active": True,
    "dedupe": {},
    "methods": ["POST"],
    "created_at": _TIME,
    "last_called_at": None,
    "previous_until": None,
}
_OF_TRIGGER = {"workflow_id": "$TRIGGERED_WORKFLOW_ID"}
TRIGGER_EXAMPLES = [
    Example(route=f"POST {_TRIGGER}", operation="createWorkflowTrigger", body={}, answer=TRIGGER),
    Example(route=f"GET {_TRIGGER}", operation="getWorkflowTrigger", path=_OF_TRIGGER, answer=TRIGGER),
    Example(
        route=f"PATCH {_TRIGGER}",
        operation="updateWorkflowTrigger",
        path=_OF_TRIGGER,
        body={"dedupe": {"header": "X-GitHub-Delivery"}, "methods": ["POST", "GET"]},
        answer=TRIGGER | {"dedupe": {"header": "X-GitHub-Delivery"}, "methods": ["POST", "GET"]},
    ),
    Example(
        route=f"DELETE {_TRIGGER}",
        operation="deleteWorkflowTrigger",
        path=_OF_TRIGGER,
        answer={"message": "Trigger deleted.", "id": _ID},
    ),
    Example(
        route=f"POST {_TRIGGER}/rotate",
        operation="rotateWorkflowTrigger",
        path=_OF_TRIGGER,
        body={"grace_seconds": 3600},
        answer=TRIGGER | {"previous_until": _TIME},
    ),
    Example(
        route="POST /v1/triggers/:token",
        operation="callTrigger",
        path={"token": "$TRIGGER_TOKEN"},
        headers={"Webhook-Id": "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"},
        body={"total": 120},
        answer={"execution_id": _ID, "status": "pending"},
    ),
    Example(
        route="PUT /v1/triggers/:token",
        operation="callTriggerByPut",
        path={"token": "$ANY_METHOD_TRIGGER_TOKEN"},
        body={"total": 120},
        answer={"execution_id": _ID, "status": "pending"},
    ),
    Example(
        route="GET /v1/triggers/:token",
        operation="callTriggerByGet",
        path={"token": "$ANY_METHOD_TRIGGER_TOKEN"},
        answer={"execution_id": _ID, "status": "pending"},
    ),
]

_PROVIDER = "/v1/apps/:app_id/ai-provider"
PROVIDER = {
    "base_url": "http://localhost:11434/v1",
    "has_api_key": True,
    "default_model": "llama3.1",
    "header_names": [],
    "prices": {},
}
PROVIDER_EXAMPLES = [
    Example(
        route=f"GET {_PROVIDER}",
        operation="getAiProvider",
        answer={"base_url": None, "has_api_key": False, "default_model": None, "header_names": [], "prices": {}},
    ),
    Example(
        route=f"PUT {_PROVIDER}",
        operation="replaceAiProvider",
        body={"base_url": "http://localhost:11434/v1", "api_key": "sk-example", "default_model": "llama3.1"},
        answer=PROVIDER,
    ),
    Example(
        route=f"DELETE {_PROVIDER}",
        operation="deleteAiProvider",
        answer={"message": "AI provider deleted.", "id": _ID},
    ),
]
