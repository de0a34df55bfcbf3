"""The baseline of `bench.workflows`: the same workflows in DBOS, in a separate environment. Prints figures as JSON."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time

from dbos import DBOS, DBOSConfig  # type: ignore[import-not-found]

_IN_FLIGHT = 32


@DBOS.step()  # type: ignore[untyped-decorator]
async def merge(n: int) -> dict[str, int]:
    """Return what a merge step returns."""
    return {"n": n}


@DBOS.workflow()  # type: ignore[untyped-decorator]
async def flow(n: int, steps: int) -> dict[str, int]:
    """Run so many steps."""
    found = {"n": n}
    for _ in range(steps):
        found = await merge(n)
    return found


async def main(number: int) -> None:
    """Run workflows with one and with eleven steps, side by side and one by one."""
    found = {}
    for steps in (1, 11):
        left = iter(range(number))

        async def work(steps: int = steps, left: object = left) -> None:
            for n in left:  # type: ignore[attr-defined]
                await flow(n, steps)

        await flow(0, steps)
        begun = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(_IN_FLIGHT)))
        rate = number / (time.perf_counter() - begun)
        times = []
        for n in range(100):
            begun = time.perf_counter()
            await flow(n, steps)
            times.append((time.perf_counter() - begun) * 1000)
        found[f"steps_{steps}"] = {"rate": round(rate), "p50_ms": round(statistics.median(times), 2)}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    config: DBOSConfig = {"name": "bench", "system_database_url": sys.argv[1], "run_admin_server": False}
    DBOS(config=config)
    DBOS.launch()
    asyncio.run(main(int(sys.argv[2])))
    DBOS.destroy()
