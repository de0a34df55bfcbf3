"""Dashboards and alerts ask for metrics that a server has, the guide lists all, and each alert fires when it should."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tools import dashboards

from pilotis.server import endpoint_table
from tests.deploy.alert_cases import CASES, unit_tests
from tests.support import Server
from tests.waiting import reserved_port, wait_until

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yaml"
MAX_SERIES = 3000
# Prometheus adds it to what it scrapes.
OF_PROMETHEUS = {"up"}
_NAME = re.compile(r"\b(?:pilotis|process|up)(?:_\w+)?\b(?=[{\[\s)]|$)")
_SELECTOR = re.compile(r"\b((?:pilotis|process)_\w+)\{([^}]*)\}")
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What a server with backups exposes once it has looked at its database."""
    folder = tmp_path_factory.mktemp("seeing")
    with reserved_port() as port:
        backups = {"PILOTIS_BACKUP_STORE": str(folder / "store"), "PILOTIS_BACKUP_FULL": ""}
        settings = {"PILOTIS_METRICS_PORT": str(port), **backups}
        server = Server(folder / "data", environment=settings).start()
    try:
        httpx.get(f"{server.url}/healthz")

        def read() -> str:
            text = httpx.get(f"{server.metrics_url}/metrics").text
            return text if "pilotis_postgres_database_bytes " in text.replace("# HELP pilotis_postgres", "") else ""

        text = wait_until(read)
        (folder / "metrics.txt").write_text(text)
        yield text
    finally:
        server.stop()


def types(exposed: str) -> dict[str, str]:
    """The type of each metric by the name under which Prometheus stores it."""
    found = {}
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", exposed, re.MULTILINE):
        for suffix in _SUFFIXES[kind]:
            found[name if name.endswith(suffix) and suffix != "_count" else name + suffix] = kind
    return found


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def queries() -> list[str]:
    panels = [panel for panels in dashboards.DASHBOARDS.values() for panel in panels]
    return [*(rule["expr"] for rule in alerts()), *(query for panel in panels for query in panel.queries.values())]


def test_every_query_asks_for_a_metric_that_a_server_has(exposed: str):
    known = types(exposed).keys() | OF_PROMETHEUS
    asked = {name for query in queries() for name in _NAME.findall(query)}
    assert len(asked) > 40
    assert asked - known == set()


def test_queries_name_labels_that_there_are(exposed: str):
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(exposed):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    for query in queries():
        for name, selector in _SELECTOR.findall(query):
            given = set(re.findall(r"(\w+)\s*(?:=|!=|=~|!~)\s*\"", selector)) - {"instance", "job"}
            assert given <= labels.get(name, given), query


def test_every_metric_is_in_the_guide(exposed: str):
    guide = (ROOT / "docs" / "operating.md").read_text()
    own = set(re.findall(r"^# TYPE (pilotis_\w+)", exposed, re.MULTILINE))
    assert {name for name in own if f"`{name}" not in guide} == set()
    mentioned = set(re.findall(r"`(pilotis_\w+)`", guide))
    # The server has no HTTPS.
    assert {name for name in mentioned - own if not name.startswith("pilotis_https_")} == set()


def test_a_server_that_has_answered_every_route_has_few_series(exposed: str):
    """Each route has been asked with and without success; so much that has labels as it may have in such a server."""
    own = [line for line in exposed.splitlines() if not line.startswith(("#", "pilotis_request_", "pilotis_requests_"))]
    routes, areas = endpoint_table(), {endpoint.tag for endpoint in endpoint_table()}
    by_route = 3 * (len(routes) + 1)
    by_area = 16 * (len(areas) + 1)
    assert len(own) + by_route + by_area + 500 < MAX_SERIES, (len(own), by_route, by_area)


@pytest.mark.parametrize("path", dashboards.files(), ids=lambda path: path.name)
def test_dashboards_are_what_their_tables_say(path: Path):
    assert path.read_text() == dashboards.files()[path], "run python -m tools.dashboards"
    panels = json.loads(path.read_text())["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels) == len(dashboards.DASHBOARDS[path.stem])


def test_every_alert_has_a_unit_test_and_says_what_to_do():
    assert {rule["alert"] for rule in alerts()} == CASES.keys()
    for rule in alerts():
        assert rule["labels"]["severity"] in {"page", "warn"}
        assert set(rule["annotations"]) == {"summary", "action"}


def promtool(*arguments: str | Path, folder: Path) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("needs promtool, of Debian's package prometheus")
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def without_values(rules: dict[str, Any]) -> dict[str, Any]:
    """The rules with annotations that name no value: `promtool` would compare them, however they are written."""
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        rule["annotations"] = {"action": rule["annotations"]["action"]}
    return rules


def test_prometheus_accepts_the_files(tmp_path: Path):
    shutil.copytree(RULES.parent, tmp_path / "prometheus")
    assert f"{len(CASES)} rules found" in promtool("check", "rules", RULES, folder=tmp_path)
    promtool("check", "config", tmp_path / "prometheus" / "prometheus.yaml", folder=tmp_path)


def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path):
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(without_values(yaml.safe_load(RULES.read_text()))))
    annotations = {rule["alert"]: {"action": rule["annotations"]["action"]} for rule in alerts()}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(unit_tests("rules.yaml", annotations)))
    assert "SUCCESS" in promtool("test", "rules", "tests.yaml", folder=tmp_path)
