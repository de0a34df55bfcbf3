"""The server against its own OpenAPI document, by requests that follow one another: `python -m tests.long requests`.

What one answer gives, ids above all, is what later requests name: an app is made, then a table in it, then rows, until
one of them is deleted and the rest meet what is no longer there. schemathesis finds by the document which answers lead
to which requests. `tests/http/test_schemathesis.py` sends requests that stand alone; this command runs its whole form,
too.
"""

import contextlib
import os
import re
from collections import Counter
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import FlakyStrategyDefinition
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from pilotis.http.api.openapi import document
from pilotis.server import endpoint_table
from tests.http.test_schemathesis import things_of_new_app
from tests.support import Server
from tests.waiting import PATIENCE

WALKS = int(os.environ.get("TEST_WALKS", "300"))
STEPS = 20
TOGETHER = 5
"""Walks of one run of hypothesis, which ends if two of them begin alike and the server, rightly, answers otherwise."""
CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# They end the session by which all walks are made, or are streams: the document says that those are text, but
# schemathesis takes each event for a value of its own.
LEFT_OUT = r"/stream$|^/v1/auth/|/realtime|^/v1/account$|^/v1/users/me"


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def test_requests_that_follow_one_another(server: Server, console: dict[str, str]) -> None:
    table = document(
        [endpoint for endpoint in endpoint_table() if endpoint.tag != "Pages"], base_url=server.url, version="0"
    )
    schema = schemathesis.openapi.from_dict(table).exclude(path_regex=LEFT_OUT)
    answered: Counter[int] = Counter()
    wrong: list[str] = []

    class Walk(schema.as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            self.known = things_of_new_app(server, console)
            self.seen: set[str] = set()

        def before_call(self, case: Any) -> None:
            # What no earlier answer has given names what was there at the beginning of the walk.
            for name, value in case.path_parameters.items():
                if name in self.known and value not in self.seen:
                    case.path_parameters[name] = self.known[name]

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            for header in ("Authorization", "X-Public-Key"):
                case.headers.pop(header, None)
            headers = {"X-Public-Key": self.known["public_key"]}
            if "/public/" not in case.path:
                headers["Authorization"] = f"Bearer {console['access_token']}"
            elif "app-members" in case.path:
                headers["Authorization"] = f"Bearer {self.known['access_token']}"
            return {"base_url": server.url, "headers": headers, "timeout": PATIENCE}

        def validate_response(self, response: Any, case: Any, **_: Any) -> None:
            answered[response.status_code] += 1
            self.seen.update(_UUID.findall(response.content.decode(errors="replace")))
            try:
                case.validate_response(response, checks=CHECKS)
            except BaseException as found:
                wrong.append(str(found))
                raise

    for number in range(0, WALKS, TOGETHER):
        with contextlib.suppress(FlakyStrategyDefinition):
            seed(number)(Walk).run(
                settings=settings(
                    max_examples=TOGETHER,
                    stateful_step_count=STEPS,
                    database=None,
                    deadline=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
            )
    print(f"answers by status: {dict(sorted(answered.items()))}")
    assert not wrong
    assert sum(count for status, count in answered.items() if status < 300) > WALKS
