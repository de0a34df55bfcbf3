"""Writes `deploy/grafana/*.json`: the dashboards, from the tables here. Run it after changing one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[1] / "deploy" / "grafana"
_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 2
_ON = 'instance=~"$instance"'


class Panel(NamedTuple):
    """A time series: its title, its unit in Grafana's words, and what it shows, by legend."""

    title: str
    unit: str
    queries: dict[str, str]


def _rate(metric: str, by: str = "", where: str = "") -> str:
    selector = f"{metric}{{{_ON}{',' if where else ''}{where}}}"
    return f"sum {f'by ({by}) ' if by else ''}(rate({selector}[$__rate_interval]))"


def _quantile(quantile: float, metric: str) -> str:
    return f"histogram_quantile({quantile}, {_rate(f'{metric}_bucket', 'le')})"


def _state(metric: str, by: str = "") -> str:
    """Return a state that every server reports for all of them."""
    return f"max {f'by ({by}) ' if by else ''}({metric}{{{_ON}}})"


def _added(metric: str) -> str:
    return f"sum ({metric}{{{_ON}}})"


DASHBOARDS: dict[str, list[Panel]] = {
    "overview": [
        Panel("Requests", "reqps", {"{{status}}": _rate("pilotis_requests_total", "status")}),
        Panel(
            "Duration of requests",
            "s",
            {
                f"p{quantile}": _quantile(quantile / 100, "pilotis_request_duration_seconds")
                for quantile in (50, 95, 99)
            },
        ),
        Panel(
            "Busiest routes",
            "reqps",
            {"{{method}} {{route}}": f"topk(10, {_rate('pilotis_requests_total', 'method, route')})"},
        ),
        Panel(
            "Routes that take the most time",
            "s",
            {"{{method}} {{route}}": f"topk(10, {_rate('pilotis_request_seconds_total', 'method, route')})"},
        ),
        Panel("Processor", "none", {"{{pid}}": _rate("process_cpu_seconds_total", "pid")}),
        Panel("Memory", "bytes", {"{{pid}}": f"sum by (pid) (process_resident_memory_bytes{{{_ON}}})"}),
        Panel(
            "Lag of the event loop",
            "s",
            {"p50": _quantile(0.5, "pilotis_loop_lag_seconds"), "p99": _quantile(0.99, "pilotis_loop_lag_seconds")},
        ),
        Panel(
            "In flight",
            "none",
            {
                "requests": _added("pilotis_requests_in_flight"),
                "streams": _added("pilotis_streams"),
                "live streams": _added("pilotis_live_streams"),
            },
        ),
        Panel(
            "Open files",
            "none",
            {
                "{{pid}}": f"sum by (pid) (process_open_fds{{{_ON}}})",
                "limit": f"min (process_max_fds{{{_ON}}})",
            },
        ),
        Panel(
            "Disk",
            "bytes",
            {"free": _state("pilotis_disk_free_bytes", "instance"), "size": _state("pilotis_disk_bytes", "instance")},
        ),
    ],
    "jobs": [
        Panel("Jobs", "none", {"{{kind}} {{state}}": _state("pilotis_jobs", "kind, state")}),
        Panel("Oldest due job", "s", {"due for": _state("pilotis_jobs_overdue_seconds")}),
        Panel("Attempts", "ops", {"{{kind}} {{result}}": _rate("pilotis_job_attempts_total", "kind, result")}),
        Panel("Time of attempts", "s", {"{{kind}}": _rate("pilotis_job_seconds_total", "kind")}),
        Panel("Events waiting for dispatch", "none", {"events": _state("pilotis_events_waiting")}),
        Panel("Deliveries", "ops", {"{{result}}": _rate("pilotis_deliveries_total", "result")}),
        Panel(
            "From a change to its first delivery",
            "s",
            {f"p{quantile}": _quantile(quantile / 100, "pilotis_delivery_delay_seconds") for quantile in (50, 99)},
        ),
        Panel("Queues of webhooks", "none", {"{{kind}} {{state}}": _state("pilotis_lanes", "kind, state")}),
        Panel(
            "Calls of functions",
            "ops",
            {"{{runtime}} {{status}}": _rate("pilotis_function_invocations_total", "runtime, status")},
        ),
        Panel(
            "Workflows",
            "ops",
            {"{{trigger}} {{status}}": _rate("pilotis_workflow_executions_total", "trigger, status")},
        ),
        Panel("Mails", "ops", {"{{state}}": _rate("pilotis_mail_attempts_total", "state")}),
        Panel(
            "Work that is owned and not run",
            "none",
            {"items": _added("pilotis_work_owned_not_running")},
        ),
    ],
    "postgres": [
        Panel(
            "Time of statements by feature",
            "s",
            {"{{feature}}": _rate("pilotis_database_statement_seconds_total", "feature")},
        ),
        Panel("Statements by feature", "ops", {"{{feature}}": _rate("pilotis_database_statements_total", "feature")}),
        Panel(
            "Time that callers wait for connections",
            "s",
            {"{{tenant}}": _rate("pilotis_database_pool_wait_seconds_total", "tenant")},
        ),
        Panel(
            "Connections",
            "none",
            {
                "of pools": _added("pilotis_database_pool_open"),
                "idle in pools": _added("pilotis_database_pool_idle"),
                "of PostgreSQL": _state("pilotis_postgres_connections"),
                "limit": _state("pilotis_postgres_max_connections"),
            },
        ),
        Panel("Size", "bytes", {"database": _state("pilotis_postgres_database_bytes")}),
        Panel(
            "Rows",
            "none",
            {"live": _state("pilotis_postgres_rows"), "dead": _state("pilotis_postgres_dead_rows")},
        ),
        Panel(
            "Hits of the buffers",
            "percentunit",
            {
                "hits": f"{_rate('pilotis_postgres_blocks_hit_total')} / ({_rate('pilotis_postgres_blocks_hit_total')}"
                f" + {_rate('pilotis_postgres_blocks_read_total')})"
            },
        ),
        Panel(
            "Written",
            "Bps",
            {
                "log": _rate("pilotis_postgres_wal_bytes_total"),
                "temporary files": _rate("pilotis_postgres_temporary_bytes_total"),
            },
        ),
        Panel("Oldest transaction", "s", {"age": _state("pilotis_postgres_oldest_transaction_seconds")}),
        Panel("Deadlocks", "ops", {"deadlocks": _rate("pilotis_postgres_deadlocks_total")}),
        Panel("Behind on standbys", "bytes", {"slowest": _state("pilotis_postgres_replication_lag_bytes")}),
        Panel(
            "Backups",
            "s",
            {
                "age of the newest": _state("pilotis_backup_age_seconds"),
                "since one was restored": _state("pilotis_backup_unproven_seconds"),
                "log or file that waits": _state("pilotis_backup_spool_seconds"),
                "gap without a backup since": _state("pilotis_backup_gap_seconds"),
            },
        ),
    ],
}
"""The panels of each dashboard, by the name of its file."""


def dashboard(name: str, panels: list[Panel]) -> dict[str, Any]:
    """Return a dashboard as Grafana imports it."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    instances = {"query": "label_values(pilotis_requests_in_flight, instance)", "refId": "instances"}
    return {
        "title": f"Pilotis: {name}",
        "uid": f"pilotis-{name}",
        "tags": ["pilotis"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"},
                {
                    "name": "instance",
                    "type": "query",
                    "label": "Server",
                    "datasource": source,
                    "query": instances,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                    "refresh": 2,
                },
            ]
        },
        "panels": [
            {
                "id": number + 1,
                "type": "timeseries",
                "title": panel.title,
                "datasource": source,
                "gridPos": {
                    "x": number % _COLUMNS * _WIDTH,
                    "y": number // _COLUMNS * _HEIGHT,
                    "w": _WIDTH,
                    "h": _HEIGHT,
                },
                "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
                "targets": [
                    {"refId": chr(ord("A") + place), "datasource": source, "expr": query, "legendFormat": legend}
                    for place, (legend, query) in enumerate(panel.queries.items())
                ],
            }
            for number, panel in enumerate(panels)
        ],
    }


def files() -> dict[Path, str]:
    """Return the files with their texts."""
    return {
        FOLDER / f"{name}.json": json.dumps(dashboard(name, panels), indent=2) + "\n"
        for name, panels in DASHBOARDS.items()
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
