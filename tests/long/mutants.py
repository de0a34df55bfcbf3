"""Takes away, one at a time, the conditions that rules add to statements, and expects a test to fail for each.

`python -m tests.long mutants` runs it, on a copy of the source; `python -m tests.long.mutants WORD …` those alone whose
names have one of the words. Each mutant has the tests that should notice it, which first run on the source as it is. A
mutant that they do not notice is printed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

DATA = Path("src/pilotis/data")
VISIBILITY, FOLD, COMPILE = DATA / "rules/visibility.py", DATA / "rules/fold.py", DATA / "rules/compile.py"
STATEMENTS, TABLE, OPERATIONS = DATA / "rows/statements.py", DATA / "rows/table.py", DATA / "rows/operations.py"
SERVICE, QUERY, RELATED = DATA / "rows/service.py", DATA / "rows/query.py", DATA / "rows/related.py"
FILES, LISTING, FACTS = DATA / "rules/files/service.py", DATA / "rules/files/listing.py", DATA / "rules/files/facts.py"
MATRIX = "rules/test_matrix.py::test_every_route_agrees_with_the_oracle"
FILE_MATRIX = "rules/test_file_matrix.py::test_every_file_route_agrees_with_the_oracle"
BY_ROW = "rules/test_columns_by_row.py"
PATHS = "rules/test_paths.py"
PURE = "rules/test_rules.py::test_a_claim_is_never_read_as_operators_nor_as_null"
RULES = "rules/test_rules.py"
GUIDE = "rules/test_guide.py"
NODES = "rules/test_nodes.py"
FEW = "rules/test_few_first.py"
LINKS = "rules/test_capabilities.py"
FILE_RULES = "rules/test_file_rules.py"


class Mutant(NamedTuple):
    """A change of one place in a file, and the tests that should fail by it, which are below `tests`.

    `before` is there once, or `at` says which one it is, counted from 1.
    """

    name: str
    file: Path
    before: str
    after: str
    tests: Sequence[str]
    at: int = 0


MUTANTS = [
    # Which rows: what every statement asks of them.
    Mutant(
        "rows of a rule",
        VISIBILITY,
        'return f" and {self._compiled(rule, arguments, row=row, many=many)}"',
        'return ""',
        [GUIDE],
    ),
    Mutant(
        "rows of one's own",
        VISIBILITY,
        "return f\" and __creator = {arguments.bind(rule[CREATOR_NAME], 'text')}\"",
        'return ""',
        [RULES, GUIDE],
    ),
    Mutant(
        "own rows of a level",
        VISIBILITY,
        "own: Folded = True if action is Action.CREATE else {CREATOR_NAME: member.member_id}",
        "own: Folded = True",
        ["rows/test_update_where.py::test_a_member_changes_its_own_rows"],
    ),
    Mutant(
        "a list asks for list",
        VISIBILITY,
        "rule = both(*self.fold_all(*self.listing(), Action.READ))",
        "rule = self.fold(Action.READ)",
        [MATRIX],
    ),
    Mutant(
        "a list asks for read",
        VISIBILITY,
        "rule = both(*self.fold_all(*self.listing(), Action.READ))",
        "rule = both(*self.fold_all(*(self.listing() or (Action.READ,))))",
        [RULES],
    ),
    Mutant(
        "an update asks for read",
        VISIBILITY,
        "before = both(readable, of_row_before(changed))",
        "before = of_row_before(changed)",
        [RULES],
    ),
    Mutant(
        "an update asks for update of the row before",
        VISIBILITY,
        "before = both(readable, of_row_before(changed))",
        "before = readable",
        [GUIDE],
    ),
    Mutant(
        "a deletion asks for read",
        VISIBILITY,
        "shows_creator, both(readable, changed), tables, readable",
        "shows_creator, changed, tables, readable",
        [RULES],
    ),
    Mutant(
        "a deletion asks for delete",
        VISIBILITY,
        "shows_creator, both(readable, changed), tables, readable",
        "shows_creator, readable, tables, readable",
        [GUIDE],
    ),
    Mutant(
        "an update by a condition asks for list",
        VISIBILITY,
        "Action.UPDATE, *(self.listing() if found_by_condition else ()), Action.READ",
        "Action.UPDATE, Action.READ",
        [RULES],
    ),
    Mutant(
        "a deletion by a condition asks for list",
        VISIBILITY,
        "Action.DELETE, *(self.listing() if found_by_condition else ()), Action.READ",
        "Action.DELETE, Action.READ",
        [RULES],
    ),
    Mutant(
        "a closed action is 403 before 401",
        VISIBILITY,
        "if self._rules.get(action) is None:",
        "if False:",
        [MATRIX],
    ),
    # The row after a change.
    Mutant(
        "the whole rule of a new row", VISIBILITY, 'return f"{of(old)} and {of(new)}" if', "return of(old) if", [GUIDE]
    ),
    Mutant(
        "the row before beside a new row",
        VISIBILITY,
        'return f"{of(old)} and {of(new)}" if',
        "return of(new) if",
        [RULES, MATRIX],
    ),
    Mutant(
        "the row after an update",
        STATEMENTS,
        'item = f"pilotis.require({holds}, {item})"',
        "pass",
        [GUIDE],
    ),
    Mutant(
        "the rows after an update by a condition",
        STATEMENTS,
        "judged = f\", pilotis.require(coalesce(({holds}), true), '') as judged\"",
        "pass",
        ["rows/test_update_where.py"],
    ),
    Mutant(
        "each row after an update by a condition with its own before",
        STATEMENTS,
        "join before on before.__id = written.__id",
        "cross join before",
        ["rows/test_update_where.py"],
    ),
    Mutant(
        "nobody changes who created a row",
        VISIBILITY,
        "after = True if not isinstance(changed, bool) and _is_own(changed) else changed",
        "after = True",
        [GUIDE],
    ),
    # New rows.
    Mutant(
        "a created row",
        STATEMENTS,
        'judged = f"r as materialized (select * from ({self._as_inserted()}) r where {holds}), "',
        'judged = f"r as materialized (select * from ({self._as_inserted()}) r), "',
        [GUIDE],
    ),
    Mutant(
        "the rule of a created row",
        TABLE,
        "parts = [*filter(None, [rule]), *(one.holds",
        "parts = [*(one.holds",
        [GUIDE],
    ),
    Mutant(
        "why a row is not created",
        STATEMENTS,
        "select __id::text as id, {rule} as allowed,",
        "select __id::text as id, true as allowed,",
        ["rows/test_references.py", "rows/test_upserts.py", RULES, MATRIX],
    ),
    Mutant(
        "a plan's created row",
        OPERATIONS,
        "is_judged = bool(refers) or not visible.is_everything",
        "is_judged = bool(refers)",
        [RULES, MATRIX],
    ),
    Mutant(
        "created rows of a list",
        TABLE,
        "is_judged = bool(refers) or not visible.is_everything",
        "is_judged = bool(refers)",
        [RULES, MATRIX],
    ),
    Mutant(
        "an upsert that creates freely",
        DATA / "rows/upserting.py",
        "if not visible.is_everything or visible.by_row or not all(",
        "if visible.by_row or not all(",
        ["rows/test_upserts.py::test_under_rules"],
    ),
    # Each statement asks.
    Mutant(
        "a row by its id",
        SERVICE,
        "sql = statements.select(visible.and_condition(arguments))\n",
        'sql = statements.select("")\n',
        [RULES],
    ),
    Mutant(
        "a row with fields or related rows",
        SERVICE,
        "sql = statements.select(visible.and_condition(arguments), found)",
        'sql = statements.select("", found)',
        [MATRIX, BY_ROW],
    ),
    Mutant(
        "a row by its key",
        DATA / "rows/keyed.py",
        'where = f"{found}{visible.and_condition(arguments)} and',
        'where = f"{found} and',
        [MATRIX],
    ),
    Mutant(
        "the rows there are of which a conflict tells",
        SERVICE,
        'rows = await table.fetch_plain(f"{sql}{visible.and_condition(arguments)}", *arguments.values)',
        "rows = await table.fetch_plain(sql, *arguments.values[:1])",
        ["rows/test_unique_keys.py", "rows/test_upserts.py"],
    ),
    Mutant("a list", QUERY, "condition = within(visible, condition, patterns, arguments, many=True)", "pass", [GUIDE]),
    Mutant("within", QUERY, 'return f"true{rule} and {condition}"', "return condition", [GUIDE]),
    Mutant(
        "a search without a condition",
        QUERY,
        "return visible.and_condition(arguments, many=True), []",
        'return "", []',
        [MATRIX],
    ),
    Mutant(
        "a search with a condition",
        QUERY,
        'return f" and {within(visible, condition, patterns, arguments, many=True)}", patterns',
        'return f" and {condition}", patterns',
        [BY_ROW, "rules/test_rules.py"],
    ),
    Mutant(
        "the row of a long cursor",
        QUERY,
        "where __id = {last_id}{rule} and {key.sql} is not null",
        "where __id = {last_id} and {key.sql} is not null",
        ["rows/test_cursors.py"],
    ),
    Mutant(
        "a pattern on hidden rows",
        QUERY,
        'condition = f"case when true{rule} then {condition} end"',
        "pass",
        [MATRIX],
    ),
    Mutant(
        "a pipeline",
        DATA / "query/aggregate/pipeline.py",
        "condition = table.at_this_version + visible.and_condition(arguments, many=True)",
        "condition = table.at_this_version",
        [MATRIX],
    ),
    Mutant(
        "a pipeline on hidden rows",
        DATA / "query/aggregate/pipeline.py",
        'fence = "" if visible.is_simple else " offset 0"',
        'fence = ""',
        [MATRIX],
    ),
    Mutant(
        "a row that a pipeline looks up",
        DATA / "query/aggregate/lookup.py",
        "where __id = {local}{rule} and",
        "where __id = {local} and",
        ["rows/test_lookup.py"],
    ),
    Mutant(
        "an updated row",
        OPERATIONS,
        'condition = "true" + visible.and_condition(arguments, row=row)',
        'condition = "true"',
        [GUIDE],
    ),
    Mutant(
        "a precondition on a hidden row",
        OPERATIONS,
        'condition = f"__id = $1{visible.and_condition(arguments)}"',
        'condition = "__id = $1"',
        [RULES, "security/test_hidden_values.py"],
    ),
    Mutant(
        "403 for what is read, and 404",
        OPERATIONS,
        'condition = f"__id = $1{visible.and_readable(arguments)}"',
        'condition = "__id = $1"',
        [RULES],
    ),
    Mutant(
        "updated rows of a condition",
        DATA / "rows/where_writes.py",
        "condition = within(visible, condition, patterns, arguments)",
        "pass",
        ["rows/test_update_where.py"],
        at=1,
    ),
    Mutant(
        "deleted rows of a condition",
        DATA / "rows/where_writes.py",
        "condition = within(visible, condition, patterns, arguments)",
        "pass",
        [PATHS, MATRIX],
        at=2,
    ),
    Mutant(
        "a row that is referred to",
        DATA / "rows/referring.py",
        "where {self.referred} = {value}{rule}{version})",
        "where {self.referred} = {value}{version})",
        ["rows/test_references.py"],
    ),
    Mutant(
        "a key that is referred to is hidden",
        DATA / "rows/referring.py",
        "return visible if shows_column(visible.table, number) else None",
        "return visible",
        ["rows/test_references_by_key.py"],
    ),
    Mutant(
        "a key that is referred to asks for list",
        TABLE,
        "visible = target.visible_now(principal, Action.LIST if by_key else Action.READ)",
        "visible = target.visible_now(principal, Action.READ)",
        ["rows/test_references_by_key.py"],
    ),
    Mutant(
        "a row that is shown beside another",
        RELATED,
        "where {node.referred} = {value}{rule} and",
        "where {node.referred} = {value} and",
        [MATRIX],
    ),
    Mutant(
        "the profile of a creator",
        RELATED,
        "shows = visible is not None and (visible.shows_creator or visible.tells_profile)",
        "shows = True",
        ["rows/test_references_to_members.py"],
    ),
    Mutant(
        "the row that an upsert ignores",
        DATA / "rows/upserting.py",
        "statements.select(visible.and_condition(arguments)), *arguments.values",
        'statements.select(""), *arguments.values[:1]',
        ["rows/test_upserts.py", MATRIX],
    ),
    Mutant(
        "rows of a stream",
        DATA / "realtime/subscriptions.py",
        "rule = remaining.and_condition(arguments, row=row)",
        'rule = ""',
        ["realtime/test_rules.py"],
    ),
    Mutant(
        "channels",
        DATA / "realtime/channel_rules.py",
        "select ({condition}) is true from",
        "select true from",
        ["realtime/test_channels.py::test_messages_reach_those_who_may_listen_and_come_from_those_who_may_send"],
    ),
    # Columns: hidden, shown by row, and closed.
    Mutant(
        "a column that some rows show is not named",
        VISIBILITY,
        "name for name, rule in folded.items() if rule is not True",
        "name for name, rule in folded.items() if rule is False",
        [BY_ROW],
    ),
    Mutant(
        "a hidden column",
        VISIBILITY,
        "name for name, rule in folded.items() if rule is not True",
        "name for name, rule in folded.items() if not isinstance(rule, bool)",
        [RULES],
    ),
    Mutant("the text of a link", VISIBILITY, "if rule is not True) | self._secrets()", "if rule is not True)", [LINKS]),
    Mutant(
        "the rows that show a column",
        STATEMENTS,
        'f"case when {holds} then {_member(column)} end" for column, holds in by_row',
        "_member(column) for column, holds in by_row",
        [BY_ROW],
    ),
    Mutant(
        "the rows that tell of a column's null",
        STATEMENTS,
        "case when ({holds}) is not true then {_label(column)} end",
        "case when false then {_label(column)} end",
        [BY_ROW],
    ),
    Mutant(
        "the nulls of hidden columns",
        STATEMENTS,
        'rest = f"nullif(__extra - {absent}, \'{{}}\')" if hidden else "__extra"',
        'rest = "__extra"',
        [RULES, BY_ROW],
    ),
    Mutant(
        "the columns that a new row shows",
        STATEMENTS,
        'names = ", ".join(f"case when {holds} then {_label(column)} end" for column, holds in by_row)',
        'names = ", ".join(_label(column) for column, holds in by_row)',
        [BY_ROW],
    ),
    Mutant(
        "the columns of a created row",
        OPERATIONS,
        "return records.shown(self.row, self.hidden.difference(also))",
        "return self.row",
        [BY_ROW],
    ),
    Mutant(
        "the columns of created rows",
        DATA / "rows/creating.py",
        "records.shown(one.row, hidden.difference(shown.get(one.row_id, ())))",
        "one.row",
        [BY_ROW],
    ),
    Mutant(
        "the columns of an updated row",
        TABLE,
        "if not visible.hides:\n            return self.statements_for",
        "if True:\n            return self.statements_for",
        [BY_ROW],
    ),
    Mutant(
        "a closed column",
        VISIBILITY,
        "if self.closed and (refused := sorted(self.closed & set(names))):",
        "if refused := []:",
        [RULES],
    ),
    Mutant(
        "a closed column of a new row",
        VISIBILITY,
        "rule, tables, closed=self.closed(action))",
        "rule, tables)",
        [RULES, GUIDE],
    ),
    Mutant("a closed column of an update", VISIBILITY, "readable, after, closed)", "readable, after)", [RULES, GUIDE]),
    Mutant(
        "a closed column of new rows",
        DATA / "rows/creating.py",
        "if visible.closed:\n                visible.require_settable(records.names_in(item))",
        "pass",
        [RULES, GUIDE],
    ),
    Mutant(
        "a closed column of an update by a condition",
        DATA / "rows/where_writes.py",
        "visible.require_settable(named)",
        "pass",
        ["rows/test_update_where.py", RULES],
    ),
    Mutant(
        "a change that depends on a hidden column",
        VISIBILITY,
        "if name in self.table.hidden:",
        "if False:",
        [RULES, BY_ROW],
    ),
    Mutant(
        "changes by a condition that depend on a hidden column",
        DATA / "rows/where_writes.py",
        "visible.require_readable(row.changes)",
        "pass",
        [RULES, "rows/test_update_where.py"],
    ),
    Mutant(
        "a replacement keeps what is closed",
        OPERATIONS,
        "kept = visible.closed | visible.table.hidden",
        "kept = visible.table.hidden",
        ["rows/test_upserts.py"],
    ),
    Mutant(
        "a replacement keeps what is hidden",
        OPERATIONS,
        "kept = visible.closed | visible.table.hidden",
        "kept = visible.closed",
        ["rows/test_upserts.py"],
    ),
    Mutant(
        "a key of hidden columns",
        DATA / "rows/keyed.py",
        "if column.number in key.columns and column.name in visible.table.hidden:",
        "if False:",
        [BY_ROW],
    ),
    Mutant(
        "who created a row",
        VISIBILITY,
        "shows_creator = principal.role is not None or _shows_creator(table)",
        "shows_creator = True",
        [RULES, MATRIX],
    ),
    Mutant(
        "the profile of who created a row",
        VISIBILITY,
        'return rule is not None and self._folded(rule["read"]) is True',
        "return True",
        ["rows/test_references_to_members.py"],
    ),
    # A missing value closes its branch.
    Mutant(
        "an absent claim",
        FOLD,
        "        if value is None:\n            raise NoValueError\n        return value",
        "        return value",
        [MATRIX],
    ),
    Mutant(
        "a claim inside of what is none",
        FOLD,
        "value = value.get(part) if isinstance(value, Mapping) else None",
        "value = value.get(part) if isinstance(value, Mapping) else value",
        ["rules/test_facts.py", PURE],
    ),
    Mutant(
        "a missing value under a negation",
        FOLD,
        "                if self._negated:\n                    raise",
        "                if False:\n                    raise",
        [MATRIX],
    ),
    Mutant(
        "nobody is signed in",
        FOLD,
        "        if self._caller.member is None:\n            raise NoValueError\n        # Each",
        "        if self._caller.member is None:\n            return False\n        # Each",
        [MATRIX, RULES],
    ),
    Mutant("all facts", FOLD, "return all(held)", "return any(held)", [GUIDE, RULES]),
    Mutant(
        "each fact is asked",
        FOLD,
        "held = [holds(self._caller.fact(name), condition) for name, condition in conditions.items()]",
        "held = (holds(self._caller.fact(name), condition) for name, condition in conditions.items())",
        [PURE, RULES],
    ),
    Mutant(
        "a table that was dropped",
        FOLD,
        "                raise NoValueError\n            inner",
        "                return False\n            inner",
        [PURE, RULES],
    ),
    Mutant(
        "an exists that cannot hold",
        FOLD,
        '            if inner is False:\n                return False\n            return {"$exists"',
        '            return {"$exists"',
        [PURE, RULES],
    ),
    Mutant(
        "the text of a link that is not given",
        FOLD,
        "        if texts is None:\n            raise NoValueError",
        "        texts = texts or ()",
        [LINKS],
    ),
    Mutant(
        "the text of a link that is no id",
        FOLD,
        'return {"$in": [text for text in texts if _converts(field, text)]}',
        'return {"$in": [*texts]}',
        [LINKS],
    ),
    Mutant(
        "a list that is none, or too long",
        FOLD,
        "            if not isinstance(value, list) or len(value) > _MAX_VALUES:\n                raise NoValueError",
        "            value = value if isinstance(value, list) else [value]",
        [PURE],
    ),
    Mutant(
        "the values of a list of another type",
        FOLD,
        "return [one for one in value if _converts(field, one)]",
        "return value",
        [PURE],
    ),
    Mutant(
        "a claim of another type",
        FOLD,
        'if operator != "$arrayContains" and not _converts(field, value):',
        "if False:",
        [MATRIX],
    ),
    Mutant(
        "a claim that is no text", FOLD, "if operator in _OF_TEXTS and not isinstance(value, str):", "if False:", [PURE]
    ),
    Mutant(
        "a claim that has no order",
        FOLD,
        "if operator in _OF_SINGLE_VALUES and isinstance(value, (dict, list)):",
        "if False:",
        [PURE],
    ),
    Mutant(
        "a claim that looks like operators",
        FOLD,
        'if isinstance(value, dict) and any(name.startswith("$") for name in value):\n            # What',
        "if False:\n            # What",
        [PURE],
    ),
    Mutant(
        "the role in a team",
        FOLD,
        "if not role or role in team.roles]",
        "if True]",
        ["teams/test_teams.py"],
    ),
    Mutant("numbers that are booleans", FOLD, "return left is right", "return bool(left == right)", [PURE]),
    # A condition on another table holds of its rows.
    Mutant("where a path leads", COMPILE, "self._needed.append(self._led_to(value))", "pass", [PATHS]),
    Mutant(
        "where a long path leads",
        COMPILE,
        'last = inner._led_to(beyond) if beyond.get("path") else f"{alias}.__id"',
        'last = f"{alias}.__id"',
        [PATHS],
    ),
    Mutant(
        "a value of another row that is missing",
        COMPILE,
        'if operator == "$ne" or self._negations:\n            self._needed.append(other)',
        "pass",
        [MATRIX],
    ),
    Mutant(
        "a value that is missing closes a list's branch",
        COMPILE,
        "return f\"({condition}{''.join(f' and {value} is not null' for value in dict.fromkeys(self._needed))})\"",
        "return condition",
        [MATRIX],
    ),
    Mutant(
        "a missing value beside old and new under a negation",
        COMPILE,
        "            self._needed += inner._needed\n",
        "",
        [RULES],
    ),
    Mutant(
        "a missing value of old and new",
        COMPILE,
        'return f"({inner._with_needed(condition)})"',
        'return f"({condition})"',
        [RULES],
    ),
    Mutant(
        "a negated operator",
        COMPILE,
        "            with self._negated():\n                return super()._operator",
        "            if True:\n                return super()._operator",
        [MATRIX, PATHS],
    ),
    Mutant(
        "a negated condition",
        COMPILE,
        "            with self._negated():\n                return super()._entry",
        "            if True:\n                return super()._entry",
        [MATRIX, PATHS],
    ),
    Mutant(
        "the rows of an exists",
        COMPILE,
        "{alias} where {inner._with_needed(condition)} and {version})",
        "{alias} where {version})",
        [GUIDE],
    ),
    Mutant(
        "missing values in an exists",
        COMPILE,
        "where {inner._with_needed(condition)} and {version}",
        "where {condition} and {version}",
        [RULES, MATRIX],
    ),
    Mutant(
        "the rows of an exists that are listed",
        COMPILE,
        "{table.physical} {alias} where {condition} and {version}",
        "{table.physical} {alias} where {version}",
        [GUIDE],
    ),
    Mutant(
        "missing values in an exists that is listed",
        COMPILE,
        "            condition = inner._with_needed(condition)\n",
        "",
        [RULES, MATRIX],
    ),
    Mutant(
        "an exists with more of the row is not listed",
        COMPILE,
        'if len(rows) != 1 or _count_rows(where) != 1 or rows[0][0].startswith("$"):',
        "if not rows:",
        [MATRIX, RULES],
    ),
    Mutant(
        "an exists of another type is not listed",
        COMPILE,
        "if looked_up.kind is not judged.kind or judged.kind is Kind.JSON:",
        "if False:",
        [RULES, MATRIX, FILE_RULES],
    ),
    Mutant(
        "a text that is no id",
        COMPILE,
        "other = f\"case when {other} ~ '{_UUID}' then {other}::uuid end\"",
        'other = f"{other}::uuid"',
        [FILE_RULES, FILE_MATRIX],
    ),
    Mutant(
        "a value that was null before",
        COMPILE,
        'return f"{mine} is not distinct from {other}"',
        'return f"{mine} = {other}"',
        [RULES],
    ),
    Mutant(
        "another value than before",
        COMPILE,
        'return f"{mine} is distinct from {other}"\n',
        'return f"{mine} <> {other}"\n',
        [RULES],
    ),
    Mutant(
        "a member of an array that is missing",
        COMPILE,
        'return f"({other} is not null and {field.sql} @> jsonb_build_array({other}))"',
        'return f"({field.sql} @> jsonb_build_array({other}))"',
        [RULES],
    ),
    Mutant(
        "a missing value in another row's array",
        COMPILE,
        'return f"({mine} is not null and {other} @> jsonb_build_array({mine}))"',
        'return f"({other} @> jsonb_build_array({mine}))"',
        [RULES],
    ),
    Mutant(
        "JSON's null",
        COMPILE,
        "return f\"nullif({field.sql}, 'null')\" if field.kind is Kind.JSON else field.sql",
        "return field.sql",
        [RULES],
    ),
    # A statement under rules of before fails.
    Mutant(
        "the version of an exists",
        COMPILE,
        'version = f"(true or {alias}.{table.version_column})"',
        'version = "true"',
        [NODES],
        at=1,
    ),
    Mutant(
        "the version of an exists that is listed",
        COMPILE,
        'version = f"(true or {alias}.{table.version_column})"',
        'version = "true"',
        [NODES],
        at=2,
    ),
    # Answers and rules are shared among equal callers alone.
    Mutant(
        "answers of other rules",
        VISIBILITY,
        "return self.shows_creator, rule, shown,",
        "return self.shows_creator, shown,",
        [GUIDE],
    ),
    Mutant(
        "answers with other columns",
        VISIBILITY,
        "return self.shows_creator, rule, shown,",
        "return self.shows_creator, rule,",
        [RULES, "rules/test_facts.py"],
    ),
    Mutant(
        "answers with other columns by row",
        VISIBILITY,
        'json.encode(self.by_row) if self.by_row else b""',
        'b""',
        [BY_ROW],
    ),
    *(
        Mutant(
            f"rules of {what}",
            VISIBILITY,
            "key = principal.role, action, facts, capabilities, found_by_condition, versions",
            key,
            tests,
        )
        for what, key, tests in (
            ("another role", "key = action, facts, capabilities, found_by_condition, versions", [RULES]),
            ("another action", "key = principal.role, facts, capabilities, found_by_condition, versions", [GUIDE]),
            ("another member", "key = principal.role, action, capabilities, found_by_condition, versions", [GUIDE]),
            ("another link", "key = principal.role, action, facts, found_by_condition, versions", [LINKS]),
            ("what is found by a condition", "key = principal.role, action, facts, capabilities, versions", [RULES]),
            ("other tables", "key = principal.role, action, facts, capabilities, found_by_condition", [NODES]),
        )
    ),
    Mutant(
        "rules of another moment",
        VISIBILITY,
        'if table.rules is None or not _names(table.rules, "$now"):',
        "if True:",
        [RULES],
    ),
    Mutant(
        "a member's facts are asked for", TABLE, "if member is not None and self._asks_for_facts:", "if False:", [GUIDE]
    ),
    # Few first: what is few is sorted and counted, what is many is not cut.
    Mutant("a thousand are few", STATEMENTS, 'limit {MAX_FEW + 1}"', 'limit {MAX_FEW}"', [FEW]),
    Mutant("many are not few", STATEMENTS, "page where not (select are from many)", "page where true", [FEW]),
    Mutant(
        "few of a rule",
        STATEMENTS,
        'found = f"select __id from {physical} where {condition} and {version}',
        'found = f"select __id from {physical} where {version}',
        [FEW, MATRIX],
    ),
    # Files.
    Mutant("a file", FILES, "({allowed}) is true as allowed", "true as allowed", [FILE_MATRIX]),
    Mutant("a file that may be read", FILES, "({readable}) is true as readable", "true as readable", [FILE_MATRIX]),
    Mutant(
        "a file after its replacement", FILES, 'allowed = f"{allowed} and {holds}"', "pass", [FILE_RULES, FILE_MATRIX]
    ),
    Mutant(
        "a replacement asks for read",
        FILES,
        "if not await self.judge_reading(on, storage, principal, before):",
        "if False:",
        [FILE_RULES, FILE_MATRIX],
    ),
    Mutant(
        "a created file",
        FILES,
        "if await self._judge(on, storage, principal, Action.CREATE, [item]) != [Verdict.OPEN]:",
        "if False:",
        [FILE_RULES],
    ),
    Mutant(
        "each file of a folder",
        FILES,
        "if any(verdict is not Verdict.OPEN for verdict in verdicts):",
        "if False:",
        [FILE_RULES, FILE_MATRIX],
    ),
    Mutant(
        "listed files",
        FILES,
        'condition = compile_rule(self.rule, self.table, {}, arguments, row="f")',
        'condition = "true"',
        [FILE_RULES],
    ),
    Mutant(
        "the rows that a list of files asks",
        LISTING,
        'source = f"from {other.physical} e where {condition} and',
        'source = f"from {other.physical} e where',
        [FILE_RULES],
    ),
    Mutant("the version of a list of files", LISTING, ' and (true or e.{other.version_column})"', '"', [FILE_RULES]),
    Mutant(
        "rows without a value in a list of files", LISTING, "and {field.sql} is not null limit", "limit", [FILE_RULES]
    ),
    Mutant("too many rows for a list of files", FILES, "if len(rows) > listing.MAX_VALUES:", "if False:", [FILE_RULES]),
    Mutant(
        "texts that are no ids in a list of files",
        FILES,
        "values = [value for value in values if is_uuid(value) and str(UUID(value)) == value]",
        "pass",
        [FILE_RULES, FILE_MATRIX],
    ),
    Mutant(
        "segments of a path",
        FACTS,
        "case when split_part({item}.path, '/', {at + 2}) <> ''\n            then",
        "case when true\n            then",
        [FILE_RULES, FILE_MATRIX],
    ),
]


def mutated(mutant: Mutant, text: str) -> str:
    """Return the text of the mutant's file with its change."""
    parts = text.split(mutant.before)
    found = len(parts) - 1
    assert found == 1 or 1 <= mutant.at <= found, f"{mutant.name}: {mutant.before!r} is {found} times in {mutant.file}"
    at = mutant.at or 1
    changed = mutant.before.join(parts[:at]) + mutant.after + mutant.before.join(parts[at:])
    compile(changed, mutant.file, "exec")
    return changed


def run(tests: Sequence[str], source: Path) -> int:
    """Return pytest's status for tests of a source: 0 if all pass, 1 if one fails."""
    paths = [f"tests/{one}" for one in tests]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *paths]
    environment = os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(command, env=environment, capture_output=True, check=False, text=True)
    if done.returncode > 1:
        raise RuntimeError(done.stdout + done.stderr)
    return done.returncode


def survives(mutant: Mutant) -> bool:
    """Whether the tests pass although a condition is gone."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "src"
        shutil.copytree("src", source, ignore=shutil.ignore_patterns("__pycache__"))
        file = source.parent / mutant.file
        file.write_text(mutated(mutant, file.read_text("utf-8")), "utf-8")
        return run(mutant.tests, source) == 0


def main(words: Sequence[str] = ()) -> int:
    """Print the mutants that no test notices; the status is 1 if there are any."""
    chosen = [one for one in MUTANTS if not words or any(word in one.name for word in words)]
    begun = time.monotonic()
    tests = list(dict.fromkeys(test for one in chosen for test in one.tests))
    assert run(tests, Path("src")) == 0, "The tests fail without any mutant."
    survivors = []
    for number, mutant in enumerate(chosen, 1):
        started = time.monotonic()
        alive = survives(mutant)
        if alive:
            survivors.append(mutant)
        said = "NOT NOTICED" if alive else "noticed"
        print(f"{number} of {len(chosen)}: {mutant.name}: {said}, {time.monotonic() - started:.0f} s", flush=True)
    minutes = (time.monotonic() - begun) / 60
    print(
        f"{len(survivors)} of {len(chosen)} were not noticed, in {minutes:.0f} minutes: {[x.name for x in survivors]}"
    )
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
