"""Takes away, one at a time, the conditions that the compiler of rules adds, and expects a test to fail for each.

`python -m tests.long mutants` runs it, on a copy of the source. A mutant that no test notices is printed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

RULES = Path("src/pilotis/data/rules")
ROWS = Path("src/pilotis/data/rows")
# A mutant ends with the first test that fails.
TESTS = ["rules", "guide", "paths", "columns_by_row", "few_first", "nodes", "trying", "matrix"]


class Mutant(NamedTuple):
    """A change of one place in a file."""

    file: Path
    before: str
    after: str
    first: str = "rules"
    """The tests with which it begins."""


MUTANTS = [
    # A row that does not hold a rule is neither read nor listed.
    Mutant(
        RULES / "visibility.py", 'return f" and {self._compiled(rule, arguments, row=row, many=many)}"', 'return ""'
    ),
    Mutant(
        RULES / "visibility.py",
        "return f\" and __creator = {arguments.bind(rule[CREATOR_NAME], 'text')}\"",
        'return ""',
    ),
    # Lists ask for both actions, changes for reading as well, and what a condition finds for the list.
    Mutant(
        RULES / "visibility.py",
        "rule = both(*self.fold_all(*self.listing(), Action.READ))",
        "rule = self.fold(Action.READ)",
        "guide",
    ),
    Mutant(
        RULES / "visibility.py",
        "before = both(readable, of_row_before(changed))",
        "before = of_row_before(changed)",
    ),
    Mutant(
        RULES / "visibility.py",
        "shows_creator, both(readable, changed), tables, readable",
        "shows_creator, changed, tables, readable",
    ),
    Mutant(
        RULES / "visibility.py",
        "Action.UPDATE, *(self.listing() if found_by_condition else ()), Action.READ",
        "Action.UPDATE, Action.READ",
    ),
    Mutant(
        RULES / "visibility.py",
        "Action.DELETE, *(self.listing() if found_by_condition else ()), Action.READ",
        "Action.DELETE, Action.READ",
    ),
    # The row after a change holds the rule.
    Mutant(RULES / "visibility.py", 'return f"{of(old)} and {of(new)}" if', "return of(old) if", "guide"),
    Mutant(ROWS / "statements.py", 'item = f"pilotis.require({holds}, {item})"', "pass", "guide"),
    Mutant(
        ROWS / "statements.py",
        "judged = f\", pilotis.require(coalesce(({holds}), true), '') as judged\"",
        "pass",
        "guide",
    ),
    # A new row holds the rule.
    Mutant(
        ROWS / "statements.py",
        "select * from ({self._as_inserted()}) r where {holds}",
        "select * from ({self._as_inserted()}) r",
        "guide",
    ),
    # Columns: hidden, shown by row, and closed.
    Mutant(
        RULES / "visibility.py",
        "name for name, rule in folded.items() if rule is not True",
        "name for name, rule in folded.items() if rule is False",
        "columns_by_row",
    ),
    Mutant(
        ROWS / "statements.py",
        'f"case when {holds} then {_member(column)} end" for column, holds in by_row',
        "_member(column) for column, holds in by_row",
        "columns_by_row",
    ),
    Mutant(
        ROWS / "statements.py",
        "case when ({holds}) is not true then {_label(column)} end",
        "case when false then {_label(column)} end",
        "columns_by_row",
    ),
    Mutant(
        ROWS / "operations.py",
        "return records.shown(self.row, self.hidden.difference(also))",
        "return self.row",
        "columns_by_row",
    ),
    Mutant(
        ROWS / "creating.py",
        "records.shown(one.row, hidden.difference(shown.get(one.row_id, ())))",
        "one.row",
        "columns_by_row",
    ),
    Mutant(
        RULES / "visibility.py",
        "if self.closed and (refused := sorted(self.closed & set(names))):",
        "if refused := []:",
        "columns_by_row",
    ),
    Mutant(RULES / "visibility.py", "if name in self.table.hidden:", "if False:", "columns_by_row"),
    Mutant(
        ROWS / "keyed.py",
        "if column.number in key.columns and column.name in visible.table.hidden:",
        "if False:",
        "columns_by_row",
    ),
    # A missing value closes its branch.
    Mutant(
        RULES / "fold.py",
        "        if value is None:\n            raise NoValueError\n        return value",
        "        return value",
    ),
    Mutant(
        RULES / "fold.py",
        "                if self._negated:\n                    raise",
        "                if False:\n                    raise",
    ),
    Mutant(
        RULES / "fold.py",
        "        if self._caller.member is None:\n            raise NoValueError\n        # Each",
        "        if self._caller.member is None:\n            return False\n        # Each",
    ),
    Mutant(RULES / "compile.py", "self._needed.append(self._led_to(value))", "pass", "paths"),
    Mutant(
        RULES / "compile.py", 'if operator == "$ne" or self._negations:\n            self._needed.append(other)', "pass"
    ),
    Mutant(
        RULES / "compile.py", "where {inner._with_needed(condition)} and {version}", "where {condition} and {version}"
    ),
    # A condition on another table holds of its rows.
    Mutant(
        RULES / "compile.py",
        "{alias} where {inner._with_needed(condition)} and {version})",
        "{alias} where {version})",
        "guide",
    ),
    Mutant(
        RULES / "compile.py",
        "{table.physical} {alias} where {condition} and {version}",
        "{table.physical} {alias} where {version}",
        "guide",
    ),
    # What a rule hides is not met by a pattern or a calculation.
    Mutant(ROWS / "query.py", 'condition = f"case when true{rule} then {condition} end"', "pass", "matrix"),
    # A statement under rules of before fails.
    Mutant(RULES / "compile.py", 'version = f"(true or {alias}.{table.version_column})"', 'version = "true"', "nodes"),
    # Answers are shared among equal callers alone.
    Mutant(
        RULES / "visibility.py", "return self.shows_creator, rule, shown,", "return self.shows_creator, shown,", "guide"
    ),
    Mutant(
        RULES / "visibility.py",
        "key = principal.role, action, facts, found_by_condition, versions",
        "key = principal.role, action, found_by_condition, versions",
        "guide",
    ),
    Mutant(
        RULES / "visibility.py",
        "key = principal.role, action, facts, found_by_condition, versions",
        "key = principal.role, facts, found_by_condition, versions",
        "guide",
    ),
    Mutant(ROWS / "table.py", "if member is not None and self._asks_for_facts:", "if False:", "guide"),
    # Few first: what is few is sorted and counted, what is many is not cut.
    Mutant(ROWS / "statements.py", 'limit {MAX_FEW + 1}"', 'limit {MAX_FEW}"', "few_first"),
    Mutant(ROWS / "statements.py", "page where not (select are from many)", "page where true", "few_first"),
]


def survives(mutant: Mutant) -> bool:
    """Whether the tests pass although a condition is gone."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "src"
        shutil.copytree("src", source, ignore=shutil.ignore_patterns("__pycache__"))
        file = source.parent / mutant.file
        text = file.read_text("utf-8")
        assert mutant.before in text, f"{mutant.file} has no longer: {mutant.before}"
        file.write_text(text.replace(mutant.before, mutant.after, 1), "utf-8")
        names = [mutant.first, *(name for name in TESTS if name != mutant.first)]
        tests = [f"tests/rules/test_{name}.py" for name in names]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        environment = os.environ | {"PYTHONPATH": str(source)}
        return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0


def main() -> int:
    """Print the mutants that no test notices; the status is 1 if there are any."""
    survivors = []
    for number, mutant in enumerate(MUTANTS, 1):
        if survives(mutant):
            survivors.append(mutant)
            print(f"Not noticed: {mutant.file}: {mutant.before!r} as {mutant.after!r}", flush=True)
        print(f"{number} of {len(MUTANTS)}", flush=True)
    print(f"{len(survivors)} of {len(MUTANTS)} were not noticed.")
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())
