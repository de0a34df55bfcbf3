"""Deploys the functions of an example."""

import tomllib
from pathlib import Path

from tests.functions.support import Functions

WORKFLOWS = Path(__file__).parents[2] / "examples" / "workflows"


async def deployed(functions: Functions, place: Path, variables: dict[str, str], host: str | None = None) -> None:
    """Deploy the function of a directory; `host` takes the place of the one that it may connect to."""
    given = tomllib.loads((place / "function.toml").read_text())
    if host is not None:
        given["egress"]["hosts"] = [host]
    function_id = await functions.create(given.pop("name"), given.pop("runtime"), **given)
    for variable, value in variables.items():
        path = f"{functions.base}/{function_id}/env/{variable}"
        assert (await functions.console.put(path, json={"value": value})).status_code == 200
    answer = await functions.deploy(function_id, {"index.ts": (place / "index.ts").read_text()})
    assert answer.status_code == 201, answer.text
