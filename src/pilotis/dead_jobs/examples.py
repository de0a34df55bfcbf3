"""Examples of dead jobs, for the reference."""

from pilotis.http.api.example import Example

_ID = "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"

EXAMPLES = [
    Example(
        route="GET /v1/apps/:app_id/dead-jobs",
        operation="listDeadJobs",
        query={"limit": 1},
        answer={
            "data": [
                {
                    "job_id": _ID,
                    "kind": "functions.call",
                    "subject": "0199c0de-f1c2-7b7d-89e6-2b7d9e60a385",
                    "attempts": 6,
                    "created_at": "2026-01-31T09:30:00.000Z",
                    "ended_at": "2026-01-31T10:45:00.000Z",
                    "error": {"code": "TIMEOUT", "message": "TimeoutError: The job exceeded its time limit."},
                }
            ],
            "total_count": 1,
            "limit": 1,
            "offset": 0,
        },
    ),
    Example(
        route="POST /v1/apps/:app_id/dead-jobs/:job_id/retry",
        operation="retryDeadJob",
        path={"job_id": "$DEAD_JOB_ID"},
        answer={"message": "The job is due again.", "id": _ID},
    ),
    Example(
        route="POST /v1/apps/:app_id/dead-jobs/retry",
        operation="retryDeadJobs",
        body={"kind": "functions.call"},
        answer={"message": "1 jobs are due again.", "retried": 1},
    ),
    Example(
        route="DELETE /v1/apps/:app_id/dead-jobs/:job_id",
        operation="deleteDeadJob",
        path={"job_id": "$DEAD_JOB_ID"},
        answer={"message": "Dead job deleted.", "id": _ID},
    ),
]
