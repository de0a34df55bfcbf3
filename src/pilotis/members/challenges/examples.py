"""The example of the route of challenges."""

from __future__ import annotations

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="POST /v1/public/challenges",
        operation="createChallenge",
        answer={"challenge": "…", "difficulty": 16, "expires_in": 300},
    ),
]
