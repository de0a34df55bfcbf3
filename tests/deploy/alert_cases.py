"""What each alert says: series at which it fires after a time, and series at which it does not. For `promtool`."""

from typing import Any, NamedTuple

ON = 'instance="a",job="pilotis"'


class Case(NamedTuple):
    """The series of two situations, as `promtool` writes them, the minutes after which the alert fires in the first."""

    fires: dict[str, str]
    silent: dict[str, str]
    minutes: int
    labels: dict[str, str]
    severity: str


def _steady(metric: str, high: float, low: float, minutes: int, severity: str = "warn", **labels: str) -> Case:
    """A state that is too high, and one that is not."""
    more = "".join(f',{name}="{value}"' for name, value in labels.items())
    series = f"{metric}{{{ON}{more}}}"
    all_labels = {"instance": "a", "job": "pilotis", **labels}
    return Case({series: f"{high}x60"}, {series: f"{low}x60"}, minutes, all_labels, severity)


def _pair(
    first: str, second: str, fires: tuple[str, str], silent: tuple[str, str], minutes: int, severity: str
) -> Case:
    """Two series that are compared."""
    names = (first, second)
    return Case(
        dict(zip(names, fires, strict=True)),
        dict(zip(names, silent, strict=True)),
        minutes,
        {"instance": "a"},
        severity,
    )


def _quantile(metric: str, label: str, bound: float, *, fires: int, silent: int) -> Case:
    """A histogram: of all durations, as many as in silence, some are below the bound, the others not far above."""
    more = f",{label}" if label else ""
    names = [f'{metric}_bucket{{{ON}{more},le="{le}"}}' for le in (bound, 2.5 * bound, "+Inf")]
    everything = f"0+{silent}x60"
    return Case(
        dict(zip(names, (f"0+{fires}x60", everything, everything), strict=True)),
        dict.fromkeys(names, everything),
        25,
        {"instance": "a"},
        "warn",
    )


UP, MAX = f"up{{{ON}}}", f"pilotis_postgres_max_connections{{{ON}}}"


def _counted(metric: str, label: str) -> str:
    return f"{metric}{{{ON},{label}}}"


CASES: dict[str, Case] = {
    "PilotisDown": Case({UP: "0x60"}, {UP: "1x60"}, 3, {"instance": "a", "job": "pilotis"}, "page"),
    "PilotisDatabaseUnreachable": Case(
        {UP: "1x60"}, {UP: "1x60", MAX: "100x60"}, 5, {"instance": "a", "job": "pilotis"}, "page"
    ),
    "PilotisErrors": _pair(
        _counted("pilotis_requests_total", 'status="5xx"'),
        _counted("pilotis_requests_total", 'status="2xx"'),
        ("0+2x60", "0+98x60"),
        ("0+1x60", "0+199x60"),
        15,
        "page",
    ),
    "PilotisSlow": _quantile("pilotis_request_duration_seconds", 'area="Table data"', 1.0, fires=90, silent=100),
    "PilotisLoopLag": _quantile("pilotis_loop_lag_seconds", "", 0.1, fires=50, silent=60),
    "PilotisPoolWaits": Case(
        {_counted("pilotis_database_pool_wait_seconds_total", 'tenant="app"'): "0+90x60"},
        {_counted("pilotis_database_pool_wait_seconds_total", 'tenant="app"'): "0+30x60"},
        15,
        {"instance": "a", "job": "pilotis", "tenant": "app"},
        "warn",
    ),
    "PilotisDeadJobs": _steady("pilotis_jobs", 1, 0, 20, state="dead", kind="mail.send")._replace(
        labels={"instance": "a", "kind": "mail.send"}
    ),
    "PilotisJobsOverdue": _steady("pilotis_jobs_overdue_seconds", 601, 599, 10),
    "PilotisEventsWaiting": _steady("pilotis_events_waiting", 1001, 1000, 15),
    "PilotisDeliveriesFailing": _pair(
        _counted("pilotis_deliveries_total", 'result="failed"'),
        _counted("pilotis_deliveries_total", 'result="succeeded"'),
        ("0+6x90", "0+4x90"),
        ("0+4x90", "0+6x90"),
        70,
        "warn",
    ),
    "PilotisMailsFailing": _pair(
        _counted("pilotis_mail_attempts_total", 'state="deferred"'),
        _counted("pilotis_mail_attempts_total", 'state="sent"'),
        ("0+6x90", "0+4x90"),
        ("0+4x90", "0+6x90"),
        70,
        "warn",
    ),
    "PilotisBackupOld": _steady("pilotis_backup_age_seconds", 26 * 3600 + 1, 26 * 3600, 15, "page"),
    "PilotisBackupUnproven": _steady("pilotis_backup_unproven_seconds", 35 * 86400 + 1, 35 * 86400, 5),
    "PilotisBackupSpool": _steady("pilotis_backup_spool_seconds", 301, 300, 10, "page"),
    "PilotisBackupGap": _steady("pilotis_backup_gap_seconds", 1, 0, 1, "page"),
    "PilotisDiskLow": _pair(
        f"pilotis_disk_free_bytes{{{ON}}}",
        f"pilotis_disk_bytes{{{ON}}}",
        ("19x60", "100x60"),
        ("21x60", "100x60"),
        15,
        "warn",
    )._replace(labels={"instance": "a", "job": "pilotis"}),
    # What is left after a day lasts for three days and a half, and for 69.
    "PilotisDiskFull": Case(
        {f"pilotis_disk_free_bytes{{{ON}}}": "1000000-200x4000", f"pilotis_disk_bytes{{{ON}}}": "1000000x4000"},
        {f"pilotis_disk_free_bytes{{{ON}}}": "1000000-10x4000", f"pilotis_disk_bytes{{{ON}}}": "1000000x4000"},
        1600,
        {"instance": "a", "job": "pilotis"},
        "page",
    ),
    "PilotisConnections": _pair(
        f"pilotis_postgres_connections{{{ON}}}", MAX, ("81x60", "100x60"), ("80x60", "100x60"), 15, "warn"
    )._replace(labels={"instance": "a", "job": "pilotis"}),
    "PilotisLongTransaction": _steady("pilotis_postgres_oldest_transaction_seconds", 3601, 3600, 15),
    "PilotisReplication": _steady("pilotis_postgres_replication_lag_bytes", 2**30 + 1, 2**30, 15, "page"),
    "PilotisClock": _steady("pilotis_clock_difference_seconds", 1.5, 0.5, 10),
    "PilotisWorkNotRunning": _steady("pilotis_work_owned_not_running", 1, 0, 15),
}
"""By the alert's name."""


def unit_tests(rules: str, annotations: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Return `promtool`'s unit tests of the rules in a file.

    `annotations` are the alerts' own, whose texts `promtool` compares as well; they have no value in them there.
    """
    return {
        "rule_files": [rules],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [
                    {
                        "eval_time": f"{case.minutes}m",
                        "alertname": name,
                        "exp_alerts": [
                            {
                                "exp_labels": {"severity": case.severity, **case.labels},
                                "exp_annotations": annotations[name],
                            }
                        ]
                        if fires
                        else [],
                    }
                ],
            }
            for name, case in CASES.items()
            for fires, series in ((True, case.fires), (False, case.silent))
        ],
    }
