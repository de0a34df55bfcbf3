"""The list at the end of a run: which tests were skipped, how many, and what to install for them."""

import re
from collections import Counter
from collections.abc import Iterable

import pytest

# What a reason names, and the packages of Debian that bring it.
_PACKAGES = {
    r"Chromium": "chromium-headless-shell fonts-noto-cjk",
    r"Firefox": "firefox-esr",
    r"WebKit": "webkit2gtk-driver xvfb",
    r"npm|Node\b": "nodejs npm",
    r"sandbox|bwrap|bubblewrap|namespaces": "bubblewrap",
    r"PgBouncer": "pgbouncer (1.21 or newer)",
    r"PostgreSQL 15": "postgresql-15",
    r"OpenSSL": "openssl",
    r"curl": "curl",
    r"setpriv|unshare": "util-linux",
}


def lines(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Return a line for each reason, the most frequent first, and one with all that can be installed."""
    reasons = Counter(_reason(report) for report in reports)
    missing = {
        package: None
        for reason, _ in reasons.most_common()
        for pattern, package in _PACKAGES.items()
        if re.search(pattern, reason)
    }
    found = [f"{count:5} test{'s' * (count > 1)}: {reason}" for reason, count in reasons.most_common()]
    return [*found, f"To run them, install: {', '.join(missing)}"] if missing else found


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return told.removeprefix("Skipped: ").strip()
