"""Write what is newer than the browsers that the console supports, by MDN's compatibility data.

    python tools/newer_features.py

needs npm. `tests/console/newer_features.json` then has the names that at least one of `BROWSERS` lacks, and
`tests/console/test_modules.py` looks for them in the scripts and styles that pages load. Run it after changing a
version, and now and then for features that are new. The data is in the public domain (CC0 1.0).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = "@mdn/browser-compat-data@8.1.9"
BROWSERS = {"Safari": "17", "Firefox": "128", "Chrome": "120"}
TABLE = Path(__file__).parents[1] / "tests" / "console" / "newer_features.json"
# Each browser by the data's names, with that of phones.
_NAMES = {"Safari": ("safari", "safari_ios"), "Firefox": ("firefox", "firefox_android"), "Chrome": ("chrome", "edge")}

Data = dict[str, Any]


def main() -> None:
    """Fetch the data and write the table."""
    data = _fetch()
    newer = {name: sorted(found) for name, found in _names(data)}
    about = {"source": PACKAGE, "licence": "CC0-1.0", "browsers": BROWSERS}
    lines = [f"{json.dumps(name)}: {json.dumps(content)}" for name, content in {**about, **newer}.items()]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def _fetch() -> Data:
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, PACKAGE]
        subprocess.run(command, check=True)  # noqa: S603
        path = Path(folder, "node_modules", PACKAGE.rpartition("@")[0], "data.json")
        return dict(json.loads(path.read_text("utf-8")))


def _names(data: Data) -> Iterator[tuple[str, set[str]]]:
    interfaces = data["api"] | data["javascript"]["builtins"]
    yield "globals", {name for name, one in interfaces.items() if _is_newer(one)}
    yield "members", _members(interfaces)
    css = data["css"]
    yield "properties", {name for name, one in css["properties"].items() if _is_newer(one)}
    yield (
        "values",
        {
            f"{name}: {value}"
            for name, one in css["properties"].items()
            if not _is_newer(one)
            for value, content in one.items()
            if value != "__compat" and "_" not in value and _is_newer(content)
        },
    )
    yield "selectors", {name for name, one in css["selectors"].items() if _is_newer(one)}
    yield "at_rules", {name for name, one in css["at-rules"].items() if _is_newer(one)}
    yield "functions", {name for _, name, one in _below(css["types"]) if _is_newer(one)}
    yield "attributes", _attributes([data["html"]["global_attributes"], *data["html"]["elements"].values()])
    language = {name: one for name, one in data["javascript"].items() if name != "builtins"}
    yield "syntax", {path for path, _, one in _below(language) if _is_newer(one)}


def _members(interfaces: Data) -> set[str]:
    """Return names of members which no interface has that the browsers have."""
    found: dict[str, list[bool]] = defaultdict(list)
    for interface, one in interfaces.items():
        # Who has an object of another one has used a name that is newer already.
        if _is_newer(one):
            continue
        for name, member in one.items():
            # It has a function for each unit, such as `CSS.number`.
            if interface == "CSS" and _is_newer(member):
                continue
            if "__compat" in member and not name.endswith("_event") and name not in {"__compat", interface}:
                found[name.removesuffix("_static")].append(_is_newer(member))
    return {name for name, newer in found.items() if all(newer)}


def _attributes(elements: list[Data]) -> set[str]:
    """Return names of attributes that the browsers have for no element."""
    found: dict[str, list[bool]] = defaultdict(list)
    for element in elements:
        for name, one in element.items():
            if name != "__compat" and "_" not in name:
                found[name].append(_is_newer(one))
    return {name for name, newer in found.items() if all(newer)}


def _below(data: Data, above: str = "") -> Iterator[tuple[str, str, Data]]:
    """Give the path, the name and the data of each feature."""
    for name, one in data.items():
        if name != "__compat":
            path = f"{above}.{name}".removeprefix(".")
            if "__compat" in one:
                yield path, name, one
            yield from _below(one, path)


def _is_newer(feature: Data) -> bool:
    """Whether a browser lacks it, or has it under another name or behind a switch only."""
    support = feature.get("__compat", {}).get("support", {})
    return bool(support) and not all(
        _has(support.get(engine), version) for name, version in BROWSERS.items() for engine in _NAMES[name]
    )


def _has(statements: Any, version: str) -> bool:
    for one in statements if isinstance(statements, list) else [statements or {}]:
        added = one.get("version_added")
        renamed = one.get("prefix") or one.get("alternative_name") or one.get("flags")
        # What was partial and is whole now has two statements.
        gone = one.get("version_removed") and not one.get("partial_implementation")
        if added and added != "preview" and not renamed and not gone and _number(added) <= _number(version):
            return True
    return False


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("≤").split("."))


if __name__ == "__main__":
    main()
