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
CONDITIONS = "rules/test_conditions.py"
CLUB = "rules/test_guide.py::test_a_club"


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


# Not here are four that change no answer: an `$exists` that is listed though more of it, or another type, depends on
# the row (rules that are saved compare equal types, and a list may depend on the row, slowly); texts of links that are
# no id, kept in an `$in` (which leaves out what the column cannot have); and rules that are kept although a table that
# they name has changed (their statement names its version, so it fails, and all is read again).
MUTANTS = [
    # Which rows: what every statement asks of them.
    Mutant(
        "rows of a rule",
        VISIBILITY,
        'return f" and {self._compiled(rule, arguments, row=row, many=many)}"',
        'return ""',
        ["rules/test_guide.py::test_a_club"],
    ),
    Mutant(
        "rows of one's own",
        VISIBILITY,
        "return f\" and __creator = {arguments.bind(rule[CREATOR_NAME], 'text')}\"",
        'return ""',
        ["rules/test_rules.py::test_what_may_not_be_read_is_neither_changed_nor_deleted"],
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
        ["rules/test_matrix.py::test_every_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "a list asks for read",
        VISIBILITY,
        "rule = both(*self.fold_all(*self.listing(), Action.READ))",
        "rule = both(*self.fold_all(*(self.listing() or (Action.READ,))))",
        ["rules/test_conditions.py::test_a_list_shows_what_may_be_read_alone"],
    ),
    Mutant(
        "an update asks for read",
        VISIBILITY,
        "before = both(readable, of_row_before(changed))",
        "before = of_row_before(changed)",
        ["rules/test_rules.py::test_what_may_not_be_read_is_neither_changed_nor_deleted"],
    ),
    Mutant(
        "an update asks for update of the row before",
        VISIBILITY,
        "before = both(readable, of_row_before(changed))",
        "before = readable",
        ["rules/test_guide.py::test_a_public_blog"],
    ),
    Mutant(
        "a deletion asks for read",
        VISIBILITY,
        "shows_creator, both(readable, changed), tables, readable",
        "shows_creator, changed, tables, readable",
        ["rules/test_rules.py::test_what_may_not_be_read_is_neither_changed_nor_deleted"],
    ),
    Mutant(
        "a deletion asks for delete",
        VISIBILITY,
        "shows_creator, both(readable, changed), tables, readable",
        "shows_creator, readable, tables, readable",
        ["rules/test_guide.py::test_a_club"],
    ),
    Mutant(
        "an update by a condition asks for list",
        VISIBILITY,
        "Action.UPDATE, *(self.listing() if found_by_condition else ()), Action.READ",
        "Action.UPDATE, Action.READ",
        ["rules/test_rules.py::test_what_only_a_condition_finds_must_be_listed"],
    ),
    Mutant(
        "a deletion by a condition asks for list",
        VISIBILITY,
        "Action.DELETE, *(self.listing() if found_by_condition else ()), Action.READ",
        "Action.DELETE, Action.READ",
        ["rules/test_rules.py::test_what_only_a_condition_finds_must_be_listed"],
    ),
    Mutant(
        "a closed action is 403 before 401",
        VISIBILITY,
        "if self._rules.get(action) is None:",
        "if False:",
        ["rules/test_matrix.py::test_every_route_agrees_with_the_oracle"],
    ),
    # The row after a change.
    Mutant(
        "the whole rule of a new row",
        VISIBILITY,
        'return f"{of(old)} and {of(new)}" if',
        "return of(old) if",
        ["rules/test_rules.py::test_an_update_rule_compares_the_row_before_and_after"],
    ),
    Mutant(
        "the row before beside a new row",
        VISIBILITY,
        'return f"{of(old)} and {of(new)}" if',
        "return of(new) if",
        ["rules/test_conditions.py::test_what_must_hold_before_a_change_is_no_matter_of_the_row_after"],
    ),
    Mutant(
        "the row after an update",
        STATEMENTS,
        'item = f"pilotis.require({holds}, {item})"',
        "pass",
        ["rules/test_guide.py::test_teams"],
    ),
    Mutant(
        "the rows after an update by a condition",
        STATEMENTS,
        "judged = f\", pilotis.require(coalesce(({holds}), true), '') as judged\"",
        "pass",
        ["rows/test_update_where.py::test_rules_hold_before_and_afterwards"],
    ),
    Mutant(
        "each row after an update by a condition with its own before",
        STATEMENTS,
        "join before on before.__id = written.__id",
        "cross join before",
        ["rows/test_update_where.py::test_a_rule_compares_each_row_with_itself_before"],
    ),
    Mutant(
        "nobody changes who created a row",
        VISIBILITY,
        "after = True if not isinstance(changed, bool) and _is_own(changed) else changed",
        "after = True",
        ["rules/test_guide.py::test_teams"],
    ),
    # New rows.
    Mutant(
        "a created row",
        STATEMENTS,
        'judged = f"r as materialized (select * from ({self._as_inserted(members)}) r where {holds}), "',
        'judged = f"r as materialized (select * from ({self._as_inserted(members)}) r), "',
        ["rules/test_guide.py::test_a_club"],
    ),
    Mutant(
        "the rule of a created row",
        TABLE,
        "parts = [*filter(None, [rule]), *(one.holds",
        "parts = [*(one.holds",
        ["rules/test_guide.py::test_a_club"],
    ),
    Mutant(
        "why a row is not created",
        STATEMENTS,
        "select __id::text as id, {rule} as allowed,",
        "select __id::text as id, true as allowed,",
        ["rows/test_references.py::test_a_hidden_row_is_like_one_that_is_missing"],
    ),
    Mutant(
        "a plan's created row",
        OPERATIONS,
        "is_judged = bool(refers) or not visible.is_everything",
        "is_judged = bool(refers)",
        ["rules/test_rules.py::test_a_transaction_creates_a_team_and_its_first_document"],
    ),
    Mutant(
        "created rows of a list",
        TABLE,
        "is_judged = bool(refers) or not visible.is_everything",
        "is_judged = bool(refers)",
        ["rules/test_rules.py::test_team_members_see_the_rows_of_their_teams"],
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
        ["rules/test_conditions.py::test_the_text_of_a_link_that_is_no_id_finds_nothing"],
    ),
    Mutant(
        "rows by their ids for several callers",
        TABLE,
        ".select(visible.and_condition(arguments))\n",
        '.select("")\n',
        ["rules/test_shared_reads.py::test_members_who_read_at_once_see_their_own_rows_alone"],
    ),
    Mutant(
        "new rows of several callers",
        TABLE,
        "sql = self.statements.insert_if(holds, unless_taken=bool(self.schema.enforced_keys), members=members)",
        'sql = self.statements.insert_if("true", unless_taken=bool(self.schema.enforced_keys), members=members)',
        ["rules/test_shared_creates.py::test_members_who_create_at_once_create_what_their_own_rule_allows"],
    ),
    Mutant(
        "new rows of several callers, some of which were not allowed",
        TABLE,
        "[created if row_id_of(record) in ids else None for record in records]",
        "[created] * len(records)",
        ["rules/test_shared_creates.py::test_members_who_create_at_once_create_what_their_own_rule_allows"],
    ),
    Mutant(
        "new rows whose rules ask for facts",
        SERVICE,
        "return OnceKnown(begin, finish)\n    return partial(begin, principal.member), finish\n\n\ndef",
        "pass\n    return partial(begin, principal.member), finish\n\n\ndef",
        ["rules/test_shared_creates.py::test_members_who_create_at_once_create_what_their_own_rule_allows"],
    ),
    Mutant(
        "what is shown by row of new rows",
        SERVICE,
        "insert = None if visible.by_row else table.inserting(visible)",
        "insert = table.inserting(visible)",
        ["rules/test_shared_creates.py::test_who_creates_a_row_is_shown_what_this_row_shows"],
    ),
    Mutant(
        "a page that a rule opens",
        SERVICE,
        "if not visible.is_everything or visible.hides or visible.shows_creator:",
        "if visible.hides or visible.shows_creator:",
        [MATRIX],
    ),
    Mutant(
        "the columns of a page that a rule opens",
        SERVICE,
        "if not visible.is_everything or visible.hides or visible.shows_creator:",
        "if not visible.is_everything or visible.shows_creator:",
        ["rules/test_conditions.py::test_many_changes_and_new_rows_leave_closed_and_hidden_columns_alone"],
    ),
    Mutant(
        "a row with fields or related rows",
        SERVICE,
        "sql = statements.select(visible.and_condition(arguments), found)",
        'sql = statements.select("", found)',
        ["rules/test_matrix.py::test_every_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "a row by its key",
        DATA / "rows/keyed.py",
        'where = f"{found}{visible.and_condition(arguments)} and',
        'where = f"{found} and',
        ["rules/test_rules.py::test_every_statement_on_rows_asks_what_the_caller_may_see"],
    ),
    Mutant(
        "the rows there are of which a conflict tells",
        SERVICE,
        'rows = await table.fetch_plain(f"{sql}{visible.and_condition(arguments)}", *arguments.values)',
        "rows = await table.fetch_plain(sql, *arguments.values[:1])",
        ["rows/test_unique_keys.py::test_what_a_rule_hides_is_not_named"],
    ),
    Mutant(
        "a list",
        QUERY,
        "condition = within(visible, condition, patterns, arguments, many=True)",
        "pass",
        ["rules/test_guide.py::test_a_public_blog"],
    ),
    Mutant(
        "within",
        QUERY,
        'return f"true{rule} and {condition}"',
        "return condition",
        ["rules/test_guide.py::test_a_public_blog"],
    ),
    Mutant(
        "a search without a condition",
        QUERY,
        "return visible.and_condition(arguments, many=True), []",
        'return "", []',
        ["rules/test_matrix.py::test_every_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "a search with a condition",
        QUERY,
        'return f" and {within(visible, condition, patterns, arguments, many=True)}", patterns',
        'return f" and {condition}", patterns',
        ["rules/test_conditions.py::test_what_is_found_by_words_and_a_condition_is_what_may_be_listed"],
    ),
    Mutant(
        "the row of a long cursor",
        QUERY,
        "where __id = {last_id}{rule} and {key.sql} is not null",
        "where __id = {last_id} and {key.sql} is not null",
        ["rows/test_cursors.py::test_a_walk_tells_only_visible_rows"],
    ),
    Mutant(
        "a pattern on hidden rows",
        QUERY,
        'condition = f"case when true{rule} then {condition} end"',
        "pass",
        ["rules/test_conditions.py::test_no_pattern_and_no_stage_meets_a_row_that_a_rule_hides"],
    ),
    Mutant(
        "a pipeline",
        DATA / "query/aggregate/pipeline.py",
        "condition = table.at_this_version + visible.and_condition(arguments, many=True)",
        "condition = table.at_this_version",
        ["rules/test_matrix.py::test_every_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "a pipeline on hidden rows",
        DATA / "query/aggregate/pipeline.py",
        'fence = "" if visible.is_simple else " offset 0"',
        'fence = ""',
        ["rules/test_conditions.py::test_no_pattern_and_no_stage_meets_a_row_that_a_rule_hides"],
    ),
    Mutant(
        "a row that a pipeline looks up",
        DATA / "query/aggregate/lookup.py",
        "where __id = {local}{rule} and",
        "where __id = {local} and",
        ["rows/test_lookup.py::test_each_table_has_its_own_rules"],
    ),
    Mutant(
        "an updated row",
        OPERATIONS,
        'condition = "true" + visible.and_condition(arguments, row=row)',
        'condition = "true"',
        ["rules/test_guide.py::test_a_club"],
    ),
    Mutant(
        "a precondition on a hidden row",
        OPERATIONS,
        'condition = f"__id = $1{visible.and_condition(arguments)}"',
        'condition = "__id = $1"',
        ["rules/test_rules.py::test_every_statement_on_rows_asks_what_the_caller_may_see"],
    ),
    Mutant(
        "403 for what is read, and 404",
        OPERATIONS,
        'condition = f"__id = $1{visible.and_readable(arguments)}"',
        'condition = "__id = $1"',
        ["rules/test_rules.py::test_everybody_reads_what_is_published_and_its_author_everything"],
    ),
    Mutant(
        "updated rows of a condition",
        DATA / "rows/where_writes.py",
        "condition = within(visible, condition, patterns, arguments)",
        "pass",
        ["rows/test_update_where.py::test_a_member_changes_its_own_rows"],
        at=1,
    ),
    Mutant(
        "deleted rows of a condition",
        DATA / "rows/where_writes.py",
        "condition = within(visible, condition, patterns, arguments)",
        "pass",
        ["rules/test_paths.py::test_a_rule_follows_references_on_every_route"],
        at=2,
    ),
    Mutant(
        "a row that is referred to",
        DATA / "rows/referring.py",
        "where {self.referred} = {value}{rule}{version})",
        "where {self.referred} = {value}{version})",
        ["rows/test_references.py::test_a_hidden_row_is_like_one_that_is_missing"],
    ),
    Mutant(
        "a key that is referred to is hidden",
        DATA / "rows/referring.py",
        "return visible if shows_column(visible.table, number) else None",
        "return visible",
        ["rows/test_references_by_key.py::test_what_a_caller_may_not_list_is_not_guessed_by_keys"],
    ),
    Mutant(
        "a key that is referred to asks for list",
        TABLE,
        "visible = target.visible_now(principal, Action.LIST if by_key else Action.READ)",
        "visible = target.visible_now(principal, Action.READ)",
        ["rows/test_references_by_key.py::test_what_a_caller_may_not_list_is_not_guessed_by_keys"],
    ),
    Mutant(
        "a row that is shown beside another",
        RELATED,
        "where {node.referred} = {value}{rule} and",
        "where {node.referred} = {value} and",
        ["rules/test_matrix.py::test_every_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "the profile of a creator",
        RELATED,
        "shows = visible is not None and (visible.shows_creator or visible.tells_profile)",
        "shows = True",
        ["rows/test_references_to_members.py::test_profiles_are_shown_for_members"],
    ),
    Mutant(
        "the row that an upsert ignores",
        DATA / "rows/upserting.py",
        "statements.select(visible.and_condition(arguments)), *arguments.values",
        'statements.select(""), *arguments.values[:1]',
        ["rows/test_upserts.py::test_under_rules"],
    ),
    Mutant(
        "rows of a stream",
        DATA / "realtime/subscriptions.py",
        "rule = remaining.and_condition(arguments, row=row)",
        'rule = ""',
        ["realtime/test_rules.py::test_what_a_stream_tells_is_what_queries_show"],
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
        ["rules/test_columns_by_row.py::test_every_route_that_answers_rows_shows_them_where_the_rule_holds"],
    ),
    Mutant(
        "a hidden column",
        VISIBILITY,
        "name for name, rule in folded.items() if rule is not True",
        "name for name, rule in folded.items() if not isinstance(rule, bool)",
        ["rules/test_rules.py::test_columns_are_hidden_and_closed"],
    ),
    Mutant(
        "the text of a link",
        VISIBILITY,
        "if rule is not True) | self._secrets()",
        "if rule is not True)",
        ["rules/test_capabilities.py::test_a_trail_is_shared_by_a_link_with_its_comments"],
    ),
    Mutant(
        "the rows that show a column",
        STATEMENTS,
        'f"case when {holds} then {_member(column)} end" for column, holds in by_row',
        "_member(column) for column, holds in by_row",
        ["rules/test_columns_by_row.py::test_every_route_that_answers_rows_shows_them_where_the_rule_holds"],
    ),
    Mutant(
        "the rows that tell of a column's null",
        STATEMENTS,
        "case when ({holds}) is not true then {_label(column)} end",
        "case when false then {_label(column)} end",
        ["rules/test_columns_by_row.py::test_what_is_written_answers_what_the_row_shows_afterwards"],
    ),
    Mutant(
        "the nulls of hidden columns",
        STATEMENTS,
        'rest = f"nullif(__extra - {absent}, \'{{}}\')" if hidden else "__extra"',
        'rest = "__extra"',
        ["rules/test_rules.py::test_columns_are_hidden_and_closed"],
    ),
    Mutant(
        "the columns that a new row shows",
        STATEMENTS,
        'names = ", ".join(f"case when {holds} then {_label(column)} end" for column, holds in by_row)',
        'names = ", ".join(_label(column) for column, holds in by_row)',
        ["rules/test_columns_by_row.py::test_every_route_that_answers_rows_shows_them_where_the_rule_holds"],
    ),
    Mutant(
        "the columns of a created row",
        OPERATIONS,
        "return records.shown(self.row, self.hidden.difference(also))",
        "return self.row",
        ["rules/test_columns_by_row.py::test_every_route_that_answers_rows_shows_them_where_the_rule_holds"],
    ),
    Mutant(
        "the columns of created rows",
        DATA / "rows/creating.py",
        "records.shown(one.row, hidden.difference(shown.get(one.row_id, ())))",
        "one.row",
        ["rules/test_columns_by_row.py::test_what_is_written_answers_what_the_row_shows_afterwards"],
    ),
    Mutant(
        "the columns of an updated row",
        TABLE,
        "if not visible.hides:\n            return self.statements_for",
        "if True:\n            return self.statements_for",
        ["rules/test_columns_by_row.py::test_what_is_written_answers_what_the_row_shows_afterwards"],
    ),
    Mutant(
        "a closed column",
        VISIBILITY,
        "if self.closed and (refused := sorted(self.closed & set(names))):",
        "if refused := []:",
        ["rules/test_rules.py::test_columns_are_hidden_and_closed"],
    ),
    Mutant(
        "a closed column of a new row",
        VISIBILITY,
        "rule, tables, closed=self.closed(action))",
        "rule, tables)",
        ["rules/test_guide.py::test_private_profiles"],
    ),
    Mutant(
        "a closed column of an update",
        VISIBILITY,
        "readable, after, closed)",
        "readable, after)",
        ["rules/test_rules.py::test_columns_are_hidden_and_closed"],
    ),
    Mutant(
        "a closed column of new rows",
        DATA / "rows/creating.py",
        "if visible.closed:\n                visible.require_settable(records.names_in(item))",
        "pass",
        ["rules/test_conditions.py::test_many_changes_and_new_rows_leave_closed_and_hidden_columns_alone"],
    ),
    Mutant(
        "a closed column of an update by a condition",
        DATA / "rows/where_writes.py",
        "visible.require_settable(named)",
        "pass",
        ["rows/test_update_where.py::test_rules_hold_before_and_afterwards"],
    ),
    Mutant(
        "a change that depends on a hidden column",
        VISIBILITY,
        "if name in self.table.hidden:",
        "if False:",
        ["rules/test_rules.py::test_a_change_tells_nothing_of_a_hidden_column"],
    ),
    Mutant(
        "changes by a condition that depend on a hidden column",
        DATA / "rows/where_writes.py",
        "visible.require_readable(row.changes)",
        "pass",
        ["rules/test_conditions.py::test_many_changes_and_new_rows_leave_closed_and_hidden_columns_alone"],
    ),
    Mutant(
        "a replacement keeps what is closed",
        OPERATIONS,
        "kept = visible.closed | visible.table.hidden",
        "kept = visible.table.hidden",
        ["rules/test_conditions.py::test_many_changes_and_new_rows_leave_closed_and_hidden_columns_alone"],
    ),
    Mutant(
        "a replacement keeps what is hidden",
        OPERATIONS,
        "kept = visible.closed | visible.table.hidden",
        "kept = visible.closed",
        ["rules/test_conditions.py::test_many_changes_and_new_rows_leave_closed_and_hidden_columns_alone"],
    ),
    Mutant(
        "a key of hidden columns",
        DATA / "rows/keyed.py",
        "if column.number in key.columns and column.name in visible.table.hidden:",
        "if False:",
        ["rules/test_columns_by_row.py::test_a_row_is_not_found_by_a_key_that_its_caller_cannot_name"],
    ),
    Mutant(
        "who created a row",
        VISIBILITY,
        "shows_creator = principal.role is not None or _shows_creator(table)",
        "shows_creator = True",
        ["rules/test_matrix.py::test_every_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "the profile of who created a row",
        VISIBILITY,
        'return rule is not None and self._folded(rule["read"]) is True',
        "return True",
        ["rows/test_references_to_members.py::test_profiles_are_shown_for_members"],
    ),
    # A missing value closes its branch.
    Mutant(
        "an absent claim",
        FOLD,
        "        if value is None:\n            raise NoValueError\n        return value",
        "        return value",
        ["rules/test_conditions.py::test_a_missing_value_closes_what_mentions_it"],
    ),
    Mutant(
        "a claim inside of what is none",
        FOLD,
        "value = value.get(part) if isinstance(value, Mapping) else None",
        "value = value.get(part) if isinstance(value, Mapping) else value",
        ["rules/test_conditions.py::test_a_missing_value_closes_what_mentions_it"],
    ),
    Mutant(
        "a missing value under a negation",
        FOLD,
        "                if self._negated:\n                    raise",
        "                if False:\n                    raise",
        ["rules/test_matrix.py::test_every_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "nobody is signed in",
        FOLD,
        "        if self._caller.member is None:\n            raise NoValueError\n        # Each",
        "        if self._caller.member is None:\n            return False\n        # Each",
        ["rules/test_conditions.py::test_a_missing_value_closes_what_mentions_it"],
    ),
    Mutant("all facts", FOLD, "return all(held)", "return any(held)", ["rules/test_guide.py::test_shared_notes"]),
    Mutant(
        "each fact is asked",
        FOLD,
        "held = [holds(self._caller.fact(name), condition) for name, condition in conditions.items()]",
        "held = (holds(self._caller.fact(name), condition) for name, condition in conditions.items())",
        ["rules/test_conditions.py::test_a_missing_value_closes_what_mentions_it"],
    ),
    Mutant(
        "a table that was dropped",
        FOLD,
        "                raise NoValueError\n            inner",
        "                return False\n            inner",
        ["rules/test_rules.py::test_a_claim_is_never_read_as_operators_nor_as_null"],
    ),
    Mutant(
        "an exists that cannot hold",
        FOLD,
        '            if inner is False:\n                return False\n            return {"$exists"',
        '            return {"$exists"',
        ["rules/test_conditions.py::test_a_missing_value_closes_what_mentions_it"],
    ),
    Mutant(
        "the text of a link that is not given",
        FOLD,
        "        if texts is None:\n            raise NoValueError",
        "        texts = texts or ()",
        ["rules/test_capabilities.py::test_a_trail_is_shared_by_a_link_with_its_comments"],
    ),
    Mutant(
        "a list that is none, or too long",
        FOLD,
        "            if not isinstance(value, list) or len(value) > _MAX_VALUES:\n                raise NoValueError",
        "            value = value if isinstance(value, list) else [value]",
        ["rules/test_conditions.py::test_a_missing_value_closes_what_mentions_it"],
    ),
    Mutant(
        "the values of a list of another type",
        FOLD,
        "return [one for one in value if _converts(field, one)]",
        "return value",
        ["rules/test_rules.py::test_a_claim_is_never_read_as_operators_nor_as_null"],
    ),
    Mutant(
        "a claim of another type",
        FOLD,
        'if operator != "$arrayContains" and not _converts(field, value):',
        "if False:",
        ["rules/test_matrix.py::test_random_rules_agree_with_the_oracle"],
    ),
    Mutant(
        "a claim that is no text",
        FOLD,
        "if operator in _OF_TEXTS and not isinstance(value, str):",
        "if False:",
        ["rules/test_rules.py::test_a_claim_is_never_read_as_operators_nor_as_null"],
    ),
    Mutant(
        "a claim that has no order",
        FOLD,
        "if operator in _OF_SINGLE_VALUES and isinstance(value, (dict, list)):",
        "if False:",
        ["rules/test_rules.py::test_a_claim_is_never_read_as_operators_nor_as_null"],
    ),
    Mutant(
        "a claim that looks like operators",
        FOLD,
        'if isinstance(value, dict) and any(name.startswith("$") for name in value):\n            # What',
        "if False:\n            # What",
        ["rules/test_rules.py::test_a_claim_is_never_read_as_operators_nor_as_null"],
    ),
    Mutant(
        "the role in a team",
        FOLD,
        "if not role or role in team.roles]",
        "if True]",
        ["teams/test_teams.py::test_rules_know_the_teams_of_a_member_from_its_next_request_on"],
    ),
    Mutant(
        "numbers that are booleans",
        FOLD,
        "return left is right",
        "return bool(left == right)",
        ["rules/test_conditions.py::test_a_missing_value_closes_what_mentions_it"],
    ),
    # A condition on another table holds of its rows.
    Mutant(
        "where a path leads",
        COMPILE,
        "self._needed.append(self._led_to(value))",
        "pass",
        ["rules/test_paths.py::test_a_path_that_leads_nowhere_closes_its_branch"],
    ),
    Mutant(
        "where a long path leads",
        COMPILE,
        'last = inner._led_to(beyond) if beyond.get("path") else f"{alias}.__id"',
        'last = f"{alias}.__id"',
        ["rules/test_paths.py::test_a_path_that_leads_nowhere_closes_its_branch"],
    ),
    Mutant(
        "a value of another row that is missing",
        COMPILE,
        'if operator == "$ne" or self._negations:\n            self._needed.append(other)',
        "pass",
        ["rules/test_matrix.py::test_every_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "a value that is missing closes a list's branch",
        COMPILE,
        "return f\"({condition}{''.join(f' and {value} is not null' for value in dict.fromkeys(self._needed))})\"",
        "return condition",
        ["rules/test_matrix.py::test_every_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "a missing value beside old and new under a negation",
        COMPILE,
        "            self._needed += inner._needed\n",
        "",
        ["rules/test_conditions.py::test_a_path_that_leads_nowhere_closes_a_branch_about_the_row_after"],
    ),
    Mutant(
        "a missing value of old and new",
        COMPILE,
        'return f"({inner._with_needed(condition)})"',
        'return f"({condition})"',
        ["rules/test_conditions.py::test_a_path_that_leads_nowhere_closes_a_branch_about_the_row_after"],
    ),
    Mutant(
        "a negated operator",
        COMPILE,
        "            with self._negated():\n                return super()._operator",
        "            if True:\n                return super()._operator",
        ["rules/test_conditions.py::test_a_value_that_another_row_lacks_closes_the_branch"],
    ),
    Mutant(
        "a negated condition",
        COMPILE,
        "            with self._negated():\n                return super()._entry",
        "            if True:\n                return super()._entry",
        ["rules/test_matrix.py::test_every_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "the rows of an exists",
        COMPILE,
        "{alias} where {inner._with_needed(condition)} and {version})",
        "{alias} where {version})",
        ["rules/test_guide.py::test_a_club"],
    ),
    Mutant(
        "missing values in an exists",
        COMPILE,
        "where {inner._with_needed(condition)} and {version}",
        "where {condition} and {version}",
        ["rules/test_matrix.py::test_every_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "the rows of an exists that are listed",
        COMPILE,
        "{table.physical} {alias} where {condition} and {version}",
        "{table.physical} {alias} where {version}",
        ["rules/test_guide.py::test_shared_notes"],
    ),
    Mutant(
        "missing values in an exists that is listed",
        COMPILE,
        "            condition = inner._with_needed(condition)\n",
        "",
        ["rules/test_conditions.py::test_a_value_that_another_row_lacks_closes_the_branch"],
    ),
    Mutant(
        "a text that is no id",
        COMPILE,
        "other = f\"case when {other} ~ '{_UUID}' then {other}::uuid end\"",
        'other = f"{other}::uuid"',
        ["rules/test_file_matrix.py::test_every_file_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "a value that was null before",
        COMPILE,
        'return f"{mine} is not distinct from {other}"',
        'return f"{mine} = {other}"',
        ["rules/test_matrix.py::test_every_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "another value than before",
        COMPILE,
        'return f"{mine} is distinct from {other}"\n',
        'return f"{mine} <> {other}"\n',
        ["rules/test_conditions.py::test_what_must_hold_before_a_change_is_no_matter_of_the_row_after"],
    ),
    Mutant(
        "a member of an array that is missing",
        COMPILE,
        'return f"({other} is not null and {field.sql} @> jsonb_build_array({other}))"',
        'return f"({field.sql} @> jsonb_build_array({other}))"',
        ["rules/test_conditions.py::test_a_value_that_another_row_lacks_closes_the_branch"],
    ),
    Mutant(
        "a missing value in another row's array",
        COMPILE,
        'return f"({mine} is not null and {other} @> jsonb_build_array({mine}))"',
        'return f"({other} @> jsonb_build_array({mine}))"',
        ["rules/test_conditions.py::test_a_value_that_another_row_lacks_closes_the_branch"],
    ),
    Mutant(
        "JSON's null",
        COMPILE,
        "return f\"nullif({field.sql}, 'null')\" if field.kind is Kind.JSON else field.sql",
        "return field.sql",
        ["rules/test_rules.py::test_values_inside_json_that_are_null_equal_nothing"],
    ),
    # A statement under rules of before fails.
    Mutant(
        "the version of an exists",
        COMPILE,
        'version = f"(true or {alias}.{table.version_column})"',
        'version = "true"',
        ["rules/test_nodes.py::test_columns_that_exchange_their_names_stay_what_a_rule_meant"],
        at=1,
    ),
    Mutant(
        "the version of an exists that is listed",
        COMPILE,
        'version = f"(true or {alias}.{table.version_column})"',
        'version = "true"',
        ["rules/test_nodes.py::test_columns_that_exchange_their_names_stay_what_a_rule_meant"],
        at=2,
    ),
    # Answers and rules are shared among equal callers alone.
    Mutant(
        "answers of other rules",
        VISIBILITY,
        "return self.shows_creator, rule, shown,",
        "return self.shows_creator, shown,",
        ["rules/test_conditions.py::test_answers_are_shared_among_those_alone_who_see_the_same"],
    ),
    Mutant(
        "answers with other columns",
        VISIBILITY,
        "return self.shows_creator, rule, shown,",
        "return self.shows_creator, rule,",
        ["rules/test_conditions.py::test_answers_are_shared_among_those_alone_who_see_the_same"],
    ),
    Mutant(
        "answers with other columns by row",
        VISIBILITY,
        'json.encode(self.by_row) if self.by_row else b""',
        'b""',
        ["rules/test_conditions.py::test_answers_are_shared_among_those_alone_who_see_the_same"],
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
            ("another role", "key = action, facts, capabilities, found_by_condition, versions", [CONDITIONS]),
            ("another action", "key = principal.role, facts, capabilities, found_by_condition, versions", [CLUB]),
            ("another member", "key = principal.role, action, capabilities, found_by_condition, versions", [CLUB]),
            ("another link", "key = principal.role, action, facts, found_by_condition, versions", [LINKS]),
            ("what is found by a condition", "key = principal.role, action, facts, capabilities, versions", [MATRIX]),
        )
    ),
    Mutant(
        "rules of another moment",
        VISIBILITY,
        'if table.rules is None or not _names(table.rules, "$now"):',
        "if True:",
        ["rules/test_conditions.py::test_what_is_kept_of_rules_is_for_equal_callers_at_any_time"],
    ),
    Mutant(
        "a member's facts are asked for",
        TABLE,
        "if member is not None and self._asks_for_facts:",
        "if False:",
        ["rules/test_guide.py::test_several_customers"],
    ),
    # Few first: what is few is sorted and counted, what is many is not cut.
    Mutant(
        "a thousand are few",
        STATEMENTS,
        'limit {MAX_FEW + 1}"',
        'limit {MAX_FEW}"',
        ["rules/test_few_first.py::test_lists_are_the_same_up_to_a_thousand_rows_and_beyond"],
    ),
    Mutant(
        "many are not few",
        STATEMENTS,
        "page where not (select are from many)",
        "page where true",
        ["rules/test_few_first.py::test_lists_are_the_same_up_to_a_thousand_rows_and_beyond"],
    ),
    Mutant(
        "few of a rule",
        STATEMENTS,
        'found = f"select __id from {physical} where {condition} and {version}',
        'found = f"select __id from {physical} where {version}',
        ["rules/test_matrix.py::test_every_route_agrees_with_the_oracle"],
    ),
    # Files.
    Mutant(
        "a file",
        FILES,
        "({allowed}) is true as allowed",
        "true as allowed",
        ["rules/test_file_matrix.py::test_every_file_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "a file that may be read",
        FILES,
        "({readable}) is true as readable",
        "true as readable",
        ["rules/test_file_matrix.py::test_every_file_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "a file after its replacement",
        FILES,
        'allowed = f"{allowed} and {holds}"',
        "pass",
        ["rules/test_file_matrix.py::test_every_file_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "a replacement asks for read",
        FILES,
        "if not await self.judge_reading(on, storage, principal, before):",
        "if False:",
        ["rules/test_file_matrix.py::test_every_file_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "a created file",
        FILES,
        "if await self._judge(on, storage, principal, Action.CREATE, [item]) != [Verdict.OPEN]:",
        "if False:",
        ["rules/test_file_rules.py::test_members_keep_their_files_in_a_folder_of_their_own"],
    ),
    Mutant(
        "each file of a folder",
        FILES,
        "if any(verdict is not Verdict.OPEN for verdict in verdicts):",
        "if False:",
        ["rules/test_file_rules.py::test_who_may_read_the_row_may_read_its_file"],
    ),
    Mutant(
        "listed files",
        FILES,
        'condition = compile_rule(self.rule, self.table, {}, arguments, row="f")',
        'condition = "true"',
        ["rules/test_file_rules.py::test_members_keep_their_files_in_a_folder_of_their_own"],
    ),
    Mutant(
        "the rows that a list of files asks",
        LISTING,
        'source = f"from {other.physical} e where {condition} and',
        'source = f"from {other.physical} e where',
        ["rules/test_file_rules.py::test_who_may_read_the_row_may_read_its_file"],
    ),
    Mutant(
        "the version of a list of files",
        LISTING,
        ' and (true or e.{other.version_column})"',
        '"',
        ["rules/test_nodes.py::test_columns_that_exchange_their_names_stay_what_a_rule_meant"],
    ),
    Mutant(
        "rows without a value in a list of files",
        LISTING,
        "and {field.sql} is not null limit",
        "limit",
        ["rules/test_file_matrix.py::test_every_file_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "too many rows for a list of files",
        FILES,
        "if len(rows) > listing.MAX_VALUES:",
        "if False:",
        ["rules/test_file_rules.py::test_a_list_of_files_is_compared_with_so_many_rows"],
    ),
    Mutant(
        "texts that are no ids in a list of files",
        FILES,
        "values = [value for value in values if is_uuid(value) and str(UUID(value)) == value]",
        "pass",
        ["rules/test_file_matrix.py::test_every_file_route_agrees_with_the_oracle"],
    ),
    Mutant(
        "segments of a path",
        FACTS,
        "case when split_part({item}.path, '/', {at + 2}) <> ''\n            then",
        "case when true\n            then",
        ["rules/test_file_rules.py::test_folders_are_judged_and_deleted_whole_or_not_at_all"],
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
    # Samples are those with which the tests were chosen.
    environment = os.environ | {"PYTHONPATH": str(source), "TEST_SEED": ""}
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
