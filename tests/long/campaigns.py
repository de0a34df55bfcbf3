"""Campaigns against a cluster: `python -m tests.long kills --rounds 1000`, `python -m tests.long faults --hours 2`.

`kills` ends processes by `kill -9`: nodes, PostgreSQL, sandboxes, all together. `faults` freezes nodes, silences and
breaks connections, fails over, and sets clocks wrong. Meanwhile clients of all kinds work, and after each window of
some rounds checkers compare what they were told with what is there. The report is written after each window; the
status is 1 if a checker found anything. A run that was ended goes on with `--first` and the number of its next window,
and a window with a violation is played again by the same with `--seed` and `--rounds`.
"""

import argparse
import asyncio
import math
import sys
import time
from pathlib import Path

from tests.cluster import faults
from tests.cluster.campaign import Campaign
from tests.cluster.cluster import Cluster

CAMPAIGNS = {"kills": faults.KILLS, "faults": faults.FAULTS}
_ROUNDS = 10
"""In a window: what a checker finds, one of so many faults has caused."""


def main(arguments: list[str]) -> int:
    """Run a campaign by its command line, and return the status."""
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__)
    parser.add_argument("campaign", choices=sorted(CAMPAIGNS))
    parser.add_argument("--rounds", type=int, help="faults, by default as many as the time allows")
    parser.add_argument("--hours", type=float, default=math.inf, help="how long, by default until all rounds are done")
    parser.add_argument("--seed", default=time.strftime("%Y%m%d"))
    parser.add_argument("--first", type=int, default=0, help="the number of the first window")
    parser.add_argument("--window", type=int, default=_ROUNDS, help="rounds in a window")
    parser.add_argument("--report", type=Path, default=Path("tests/artifacts/campaign.json"))
    options = parser.parse_args(arguments)
    if options.rounds is None and math.isinf(options.hours):
        parser.error("name --rounds or --hours.")
    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    end = time.monotonic() + options.hours * 3600
    rounds = options.rounds or math.inf
    async with Cluster.running() as cluster:
        campaign = Campaign(options.campaign, options.seed, cluster, CAMPAIGNS[options.campaign])
        await campaign.prepare()
        number = options.first
        while campaign.report.rounds < rounds and time.monotonic() < end:
            window = await campaign.window(number, int(min(options.window, rounds - campaign.report.rounds)))
            campaign.report.write(options.report)
            found = "".join(f"\n  {finding}" for finding in window.findings)
            _say(f"window {number}: {campaign.report.rounds} rounds, {len(window.findings)} violations{found}")
            number += 1
        await campaign.close()
    _say(f"{campaign.report.violations} violations; the report is {options.report}")
    return int(campaign.report.violations > 0)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
