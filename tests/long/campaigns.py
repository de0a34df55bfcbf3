"""Campaigns against a cluster: `python -m tests.long kills --rounds 1000`, `python -m tests.long faults --hours 2`.

`kills` ends processes by `kill -9`: nodes, PostgreSQL, sandboxes, all together. `faults` freezes nodes, silences and
breaks connections, fails over, and sets clocks wrong. Meanwhile clients of all kinds work, and after each window of
some rounds checkers compare what they were told with what is there. A run that was ended goes on with `--first` and the
number of its next window, and a window with a violation is played again by the same with `--seed` and `--rounds`.

`upgrade` replaces nodes of an earlier commit one after another, with kills between. `takeover` measures how long the
work of a killed node waits, `restore` restores a server to moments out of its history, `overload` sends five times as
much as a server can do, `soak` lets clients work without faults and finds what grows. The report is written as it goes;
the status is 1 if a checker found anything.
"""

import argparse
import asyncio
import math
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from tests.cluster import faults, overload, restore, soak, takeover
from tests.cluster.campaign import Campaign, versions
from tests.cluster.cluster import LEASE_SECONDS, Cluster
from tests.conftest import first_console_user, new_app
from tests.support import Server

_WINDOWS = {"kills": faults.KILLS, "faults": faults.FAULTS}
CAMPAIGNS = (*_WINDOWS, "overload", "restore", "soak", "takeover", "upgrade")
_UPGRADE = [faults.kill_node, *[faults.upgrade_node, faults.kill_node, faults.kill_postgres] * 3]
_ROUNDS = 10
"""In a window: what a checker finds, one of so many faults has caused."""
_WORK_SECONDS = 10.0
_MAX_MS = 1000.0
_MIN_GOODPUT = 0.8


def main(arguments: list[str]) -> int:
    """Run a campaign by its command line, and return the status."""
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__)
    parser.add_argument("campaign", choices=CAMPAIGNS)
    parser.add_argument("--rounds", type=int, help="faults, kills or restores, by default as many as the time allows")
    parser.add_argument("--hours", type=float, default=math.inf, help="how long, by default until all rounds are done")
    parser.add_argument("--seed", default=time.strftime("%Y%m%d"))
    parser.add_argument("--first", type=int, default=0, help="the number of the first window")
    parser.add_argument("--window", type=int, default=_ROUNDS, help="rounds in a window")
    parser.add_argument("--report", type=Path, default=Path("tests/artifacts/campaign.json"))
    parser.add_argument("--from", dest="earlier", default="HEAD~100", help="the commit that `upgrade` begins with")
    options = parser.parse_args(arguments)
    if options.rounds is None and math.isinf(options.hours):
        parser.error("name --rounds or --hours.")
    if options.campaign == "faults" and shutil.which("faketime") is None:
        parser.error("there is no faketime, by which clocks go wrong; `apt-get install faketime` brings it.")
    others = {
        "overload": _overload,
        "restore": _restore,
        "soak": _soak,
        "takeover": _take_over,
        "upgrade": _upgrade,
    }
    kind = others.get(options.campaign, _disturb)
    violations = asyncio.run(kind(options, time.monotonic() + options.hours * 3600))
    _say(f"{violations} violations; the report is {options.report}")
    return int(violations > 0)


async def _disturb(options: argparse.Namespace, end: float) -> int:
    rounds = options.rounds or math.inf
    async with Cluster.running() as cluster:
        campaign = Campaign(options.campaign, options.seed, cluster, _WINDOWS[options.campaign])
        await campaign.prepare()
        number = options.first
        while campaign.report.rounds < rounds and time.monotonic() < end:
            window = await campaign.window(number, int(min(options.window, rounds - campaign.report.rounds)))
            campaign.report.write(options.report)
            found = "".join(f"\n  {finding}" for finding in window.findings)
            _say(f"window {number}: {campaign.report.rounds} rounds, {len(window.findings)} violations{found}")
            number += 1
        await campaign.close()
    return campaign.report.violations


async def _upgrade(options: argparse.Namespace, end: float) -> int:
    violations = number = 0
    with tempfile.TemporaryDirectory(prefix="pilotis-upgrade-") as folder:
        source = Path(folder) / "earlier"
        await asyncio.to_thread(_git, "worktree", "add", "--quiet", "--detach", str(source), options.earlier)
        try:
            while number < (options.rounds or math.inf) and time.monotonic() < end:
                async with Cluster.running(source=source) as cluster:
                    campaign = Campaign("upgrade", options.seed, cluster, _WINDOWS["kills"])
                    await campaign.prepare()
                    for faults_of in ([faults.kill_node], _UPGRADE):
                        window = await campaign.window(number, faults_of)
                        found = "".join(f"\n  {finding}" for finding in window.findings)
                        _say(f"upgrade {number}: {len(window.findings)} violations{found}")
                    await campaign.close()
                campaign.report.versions["earlier"] = options.earlier
                campaign.report.write(options.report)
                violations += campaign.report.violations
                number += 1
        finally:
            await asyncio.to_thread(_git, "worktree", "remove", "--force", str(source))
    return violations


async def _take_over(options: argparse.Namespace, end: float) -> int:
    found: list[takeover.TakeOver] = []
    async with Cluster.running(with_standby=False, with_store=False) as cluster:
        experiment = takeover.Experiment(cluster, await asyncio.to_thread(cluster.app))
        await experiment.prepare()
        while len(found) < (options.rounds or math.inf) and time.monotonic() < end:
            found.append(await experiment.run())
            _say(f"{found[-1].seconds:.2f} s, {found[-1].status}")
            _write(options, {"lease_seconds": LEASE_SECONDS, "found": found})
        await experiment.close()
    return sum(one.status != "completed" or one.seconds > LEASE_SECONDS + 2 for one in found)


async def _soak(options: argparse.Namespace, end: float) -> int:
    violations = 0
    # What is kept of sites and files would fill for hours, as it should.
    caches = {"PILOTIS_SITES_CACHE_BYTES": "1000000", "PILOTIS_FILES_CACHE_BYTES": "1000000"}
    async with Cluster.running(settings=caches) as cluster:
        campaign = Campaign("soak", options.seed, cluster, {})
        await campaign.prepare()
        experiment = soak.Experiment(cluster, campaign)
        while len(experiment.found.samples) < (options.rounds or math.inf) and time.monotonic() < end:
            findings = await experiment.minute(options.first + len(experiment.found.samples))
            violations += len(findings)
            _say(f"{experiment.found.samples[-1]}" + "".join(f"\n  {finding}" for finding in findings))
            _write(options, {"work": campaign.report, "found": experiment.found})
        found = experiment.judge()
        _write(options, {"work": campaign.report, "found": found})
        await campaign.close()
    _say("\n".join([f"an hour: {found.slopes}", *found.findings]))
    return violations + len(found.findings)


async def _restore(options: argparse.Namespace, end: float) -> int:
    found: list[restore.Restored] = []
    while len(found) < (options.rounds or math.inf) and time.monotonic() < end:
        with tempfile.TemporaryDirectory(prefix="pilotis-restore-") as folder:
            choice = random.Random(f"{options.seed}/{options.first + len(found)}")
            found.append(await restore.Experiment(Path(folder), choice).run(_WORK_SECONDS))
        _say(f"{found[-1]}")
        _write(options, {"found": found})
    return sum(len(one.findings) for one in found)


async def _overload(options: argparse.Namespace, end: float) -> int:
    with tempfile.TemporaryDirectory(prefix="pilotis-overload-") as folder:
        server = Server(Path(folder) / "data", environment={"PILOTIS_STATEMENT_SECONDS": "5"}).start()
        try:
            app = new_app(server, first_console_user(server))
            assert server.process is not None
            found = await overload.Experiment(app, server.process.pid).run(_WORK_SECONDS)
        finally:
            server.stop()
    share = found.overload.goodput / found.capacity.goodput
    _write(options, {"found": found, "goodput": share})
    _say(f"{share:.2f} of {found.capacity.goodput:.1f} requests a second, {found.overload}")
    broken = [found.overload.p99_ms > _MAX_MS, share < _MIN_GOODPUT, found.overload.without_retry_after > 0]
    return sum(broken)


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True)


def _write(options: argparse.Namespace, found: dict[str, Any]) -> None:
    report = {"campaign": options.campaign, "seed": options.seed, "versions": versions(), **found}
    options.report.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
