"""Runs tests that take long: `python -m tests.long jobs --minutes 10`, `python -m tests.long pictures`.

Faults that need a rare order of events show only after many runs: the tests of a subject are run again and again. The
subject `pictures` is run once: every screen in both themes, both languages and all widths, with a picture of each in
`tests/artifacts`. So are `stores`: the tests of object stores on servers other than Swift, `engines`: every screen in
Firefox and WebKit beside Chromium, `https`: certificates from Pebble, `keys`: races and walks about unique keys,
references and cursors, in numbers, `upgrades`: of nodes one after the other, and of PostgreSQL with a million rows,
killed at twenty places, `requests`: twenty thousand that are generated from the OpenAPI document, and walks of those
that follow one another, `apps`: a server with twenty thousand of them, `mutants`: whether a test fails for each
condition that rules add to statements once it is taken away, and `whole`: all that is generated, repeated or built, of
which `make test` does a part (`tests/whole.py`). `kills`, `faults`, `overload`, `restore`, `soak`, `takeover` and
`upgrade` are campaigns with options of their own (`tests/long/campaigns.py`).
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.long import campaigns, mutants

PICTURES = ["tests/console", "tests/browser", "tests/oauth/test_consent_page.py", "tests/oauth/test_sign_in_with.py"]
STORES = [
    "tests/blobs",
    "tests/files/test_direct.py",
    "tests/files/test_moving.py",
    "tests/files/test_resumable_s3.py",
]
_MARKS = ("tests.whole import", "mark.whole", "mark.share")
WHOLE = [
    str(file)
    for file in sorted(Path("tests").rglob("test_*.py"))
    if "console" not in file.parts and any(mark in file.read_text() for mark in _MARKS)
]
"""Those of the console are in the pictures' run."""
KEYS = [f"tests/rows/test_{name}.py" for name in ("key_builds", "keys_on_two_nodes", "references", "upserts", "walks")]
UPGRADES = ["tests/test_rolling.py", "tests/db/test_postgres_upgrade.py"]
ONCE: dict[str, list[tuple[list[str], dict[str, str]]]] = {
    "apps": [(["-s", "tests/long/apps.py"], {})],
    "engines": [(["tests/long/engines.py"], {})],
    "https": [(["tests/https"], {"TEST_WHOLE": "1"})],
    "keys": [(KEYS, {"TEST_WHOLE": "1"})],
    "pictures": [(PICTURES, {"TEST_PICTURES": "1", "TEST_WHOLE": "1"})],
    "whole": [(WHOLE, {"TEST_WHOLE": "1"})],
    "requests": [(["tests/http/test_schemathesis.py", "tests/long/stateful.py"], {"TEST_WHOLE": "1"})],
    "realtime": [(["tests/realtime"], {"TEST_WHOLE": "1"})],
    "upgrades": [(UPGRADES, {"TEST_WHOLE": "1"})],
    "stores": [(STORES, {"TEST_S3_SERVER": name}) for name in ("versitygw",)],
}
"""The subjects that are run once, each with its tests and their environment."""
SUBJECTS = {
    "deadlines": ["tests/workflows/test_engine.py::test_the_time_limit_of_an_execution_is_no_failure_of_its_step"],
    "clients": ["tests/long/generators.py"],
    "functions": ["tests/functions/test_pool.py"],
    "jobs": [
        "tests/jobs/test_strays.py",
        "tests/jobs/test_cluster.py::test_thousands_of_jobs_survive_kills_pauses_and_lost_answers",
    ],
    "memory": ["tests/security/test_functions.py", "-k", "kernels_memory or sixteen_threads"],
    "names": [
        "tests/http/test_outgoing_guard.py",
        "tests/webhooks/test_addresses.py::test_slow_name_servers_of_one_app_delay_no_other",
    ],
    "sharding": ["tests/db/test_sharding.py"],
    "triggers": ["tests/functions/test_triggers.py"],
}


def main() -> int:
    if sys.argv[1:2] and sys.argv[1] in campaigns.CAMPAIGNS:
        return campaigns.main(sys.argv[1:])
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__)
    parser.add_argument("subject", choices=sorted([*SUBJECTS, *ONCE, *campaigns.CAMPAIGNS, "mutants"]))
    parser.add_argument("--minutes", type=float, default=10.0)
    arguments = parser.parse_args()
    if arguments.subject == "mutants":
        return mutants.main()
    if arguments.subject in ONCE:
        runs = [
            subprocess.run([sys.executable, "-m", "pytest", *tests], env={**os.environ, **environment}, check=False)
            for tests, environment in ONCE[arguments.subject]
        ]
        return max(done.returncode for done in runs)
    end = time.monotonic() + arguments.minutes * 60
    passed = failed = 0
    while time.monotonic() < end:
        done = subprocess.run([sys.executable, "-m", "pytest", *SUBJECTS[arguments.subject]], check=False)
        passed, failed = passed + (done.returncode == 0), failed + (done.returncode != 0)
        print(f"{arguments.subject}: {passed} runs passed, {failed} failed", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
