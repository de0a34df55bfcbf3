"""What the phases of a migration allow, read from its statements.

*expand* is what the version before does not notice, and what holds a lock no longer than a change of the catalogue
takes. *contract* takes things away once nobody uses them, and is as short. The parser is sqlglot's; what it does not
know, such as functions, is told by its first words.
"""

import logging
import re
from collections.abc import Iterator, Sequence

from sqlglot import exp, parse

from pilotis.db.migrations import Migration

BASE = 99
"""The last migration from before the phases."""

# Functions of a default that PostgreSQL evaluates once, for all rows that there are.
_CONSTANT = (exp.CurrentTimestamp, exp.CurrentDate, exp.Cast, exp.Array)
_NEW_FUNCTION = re.compile(r"create function ", re.IGNORECASE)
_FUNCTION = re.compile(r"(?:create (?:or replace )?|alter )function |drop function (?!.*cascade)", re.IGNORECASE)
_STORAGE = re.compile(r"alter table \S+ alter (?:column )?\w+ set (?:storage|statistics|compression)", re.IGNORECASE)
_VALIDATES = re.compile(r"alter table (\S+) validate constraint (\w+)$", re.IGNORECASE)
# Only a server that a later version has started sets it, so that writes of the version before fire nothing.
_ASKS_A_SETTING = re.compile(r" when \(.*current_setting\('pilotis\.\w+', true\) = 'on'", re.IGNORECASE)
# The parser does not know the columns that PostgreSQL 15 allows there.
_SET_NULL_COLUMNS = re.compile(r"set null \([\w, ]+\)", re.IGNORECASE)
_COMMENTS = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)


def faults(migration: Migration, before: Sequence[Migration] = ()) -> list[str]:
    """Return what a migration does that its phase does not allow; `before` are the migrations that precede it."""
    header = [line for line in migration.sql.splitlines() if line.startswith("-- phase: ")]
    if header not in (["-- phase: expand"], ["-- phase: contract"]):
        return ["a line `-- phase: expand` or `-- phase: contract` is missing"]
    found = []
    is_contract = migration.phase == "contract"
    if is_contract != bool(migration.needs) or is_contract != bool(migration.least_version):
        found.append("`-- needs: NUMBER` and `-- version: VERSION` stand in each contract, and in nothing else")
    if is_contract and not migration.needs < migration.number:
        found.append("a contract needs an earlier migration")
    statements = _statements(migration)
    if any(_is_concurrent(one) for one in statements):
        if len(statements) > 1 or migration.concurrent_index is None:
            found.append("`create index concurrently NAME on pilotis.TABLE` is the only statement of its file")
        return found
    reader = _Contract(statements, before) if is_contract else _Expand(statements)
    return found + [fault for one in statements for fault in reader.faults(one)]


def _statements(migration: Migration) -> list[exp.Expression]:
    logger = logging.getLogger("sqlglot")
    was, logger.disabled = logger.disabled, True  # it says which statements it keeps as texts
    try:
        sql = _SET_NULL_COLUMNS.sub("set null", migration.sql)
        return [one for one in parse(sql, read="postgres") if isinstance(one, exp.Expression)]
    finally:
        logger.disabled = was


def _is_concurrent(statement: exp.Expression) -> bool:
    return isinstance(statement, exp.Create | exp.Drop) and bool(statement.args.get("concurrently"))


def _text(statement: exp.Expression) -> str:
    return " ".join(_COMMENTS.sub(" ", statement.sql("postgres")).split())


def _table(statement: exp.Expression) -> str:
    """The table that a statement creates, alters, or makes an index of."""
    found = statement.find(exp.Table)
    return found.sql("postgres").partition("(")[0].strip() if found else ""


class _Expand:
    """Reads the statements of a migration of the phase expand."""

    def __init__(self, statements: Sequence[exp.Expression]) -> None:
        self._created = {
            _table(one) for one in statements if isinstance(one, exp.Create) and one.args["kind"].upper() == "TABLE"
        }
        self._added = {
            column.name
            for one in statements
            if isinstance(one, exp.Alter)
            for column in one.args["actions"]
            if isinstance(column, exp.ColumnDef)
        }

    def faults(self, statement: exp.Expression) -> Iterator[str]:
        """Yield what is wrong with a statement."""
        shown = _text(statement)[:120]
        if isinstance(statement, exp.Create):
            yield from self._create(statement, shown)
        elif isinstance(statement, exp.Alter):
            for action in statement.args["actions"]:
                yield from self._alter(statement, action, shown)
        elif isinstance(statement, exp.Insert):
            if _table(statement) not in self._created:
                yield f"it writes into a table of before: {shown}"
        elif isinstance(statement, exp.Comment):
            pass
        elif not _NEW_FUNCTION.match(_text(statement)) and not _STORAGE.match(_text(statement)):
            yield f"the version before would notice it, or it holds a lock for long: {shown}"

    def _create(self, statement: exp.Create, shown: str) -> Iterator[str]:
        kind = statement.args["kind"].upper()
        if statement.args.get("replace"):
            yield f"it replaces what the version before uses: {shown}"
        elif kind == "INDEX" and self._indexed(statement) not in self._created:
            yield f"it stops writers while it builds; build it concurrently, in a file of its own: {shown}"
        elif kind == "TRIGGER" and not (
            _ASKS_A_SETTING.search(_text(statement))
            or any(f" on {table} " in _text(statement).lower() for table in self._created)
        ):
            yield f"writes of the version before would fire it: {shown}"
        elif kind not in {"TABLE", "INDEX", "TRIGGER", "SCHEMA", "SEQUENCE", "VIEW", "TYPE", "FUNCTION"}:
            yield f"a {kind.lower()} is not created in this phase: {shown}"

    @staticmethod
    def _indexed(statement: exp.Create) -> str:
        table = statement.this.args.get("table")
        return table.sql("postgres") if table is not None else ""

    def _alter(self, statement: exp.Alter, action: exp.Expression, shown: str) -> Iterator[str]:
        if _table(statement) in self._created:
            return
        if isinstance(action, exp.ColumnDef):
            yield from self._column(action, shown)
        elif isinstance(action, exp.AddConstraint):
            named = {column.name for column in action.find_all(exp.Column)}
            if not (action.find(exp.CheckColumnConstraint, exp.Check) and "NOT VALID" in shown.upper()):
                yield f"a constraint of rows that are there is `not valid` at first: {shown}"
            elif not named <= self._added:
                yield f"the version before writes rows that break it: {shown}"
        else:
            yield f"the version before would notice it: {shown}"

    @staticmethod
    def _column(column: exp.ColumnDef, shown: str) -> Iterator[str]:
        kinds = {type(one.kind): one.kind for one in column.args.get("constraints") or []}
        default = kinds.get(exp.DefaultColumnConstraint)
        if (
            default is None
            and exp.NotNullColumnConstraint in kinds
            and not kinds[exp.NotNullColumnConstraint].args.get("allow_null")
        ):
            yield f"the version before does not set the column {column.name}: {shown}"
        if default is not None and any(not isinstance(one, _CONSTANT) for one in default.find_all(exp.Func)):
            yield f"the default of {column.name} is computed for each row, which rewrites the table: {shown}"
        for kind in kinds:
            if kind in (exp.ComputedColumnConstraint, exp.GeneratedAsIdentityColumnConstraint):
                yield f"the column {column.name} is computed for each row, which rewrites the table: {shown}"
            elif kind in (exp.CheckColumnConstraint, exp.UniqueColumnConstraint, exp.PrimaryKeyColumnConstraint):
                yield f"the constraint of {column.name} reads all rows under the strongest lock: {shown}"


class _Contract:
    """Reads the statements of a migration of the phase contract, after those of earlier ones."""

    def __init__(self, statements: Sequence[exp.Expression], before: Sequence[Migration]) -> None:
        self._own = {constraint for one in statements for constraint in self._constraints(one)}
        earlier = [one for migration in before if migration.number > BASE for one in _statements(migration)]
        validated = {match.groups() for one in earlier if (match := _VALIDATES.match(_text(one)))}
        self._not_null = {
            (table, column)
            for one in earlier
            for (table, name), column in self._constraints(one).items()
            if column and (table, name) in validated
        }

    @staticmethod
    def _constraints(statement: exp.Expression) -> dict[tuple[str, str], str | None]:
        """The constraints that a statement adds, each with the column that it keeps from being null, if it does."""
        found = {}
        if isinstance(statement, exp.Alter):
            for constraint in statement.find_all(exp.Constraint):
                column = re.search(r"CHECK \((\w+) IS NOT NULL\)", constraint.sql("postgres"), re.IGNORECASE)
                found[_table(statement), constraint.name] = column[1] if column else None
        return found

    def faults(self, statement: exp.Expression) -> Iterator[str]:
        """Yield what is wrong with a statement."""
        shown = _text(statement)
        if isinstance(statement, exp.Drop):
            if statement.args.get("cascade"):
                yield f"it takes away what it does not name: {shown[:120]}"
        elif isinstance(statement, exp.Alter):
            for action in statement.args["actions"]:
                yield from self._alter(statement, action, shown)
        elif match := _VALIDATES.match(shown):
            if match.groups() in self._own:
                yield f"the lock of the constraint lasts until its validation ends; validate it later: {shown[:120]}"
        elif not _FUNCTION.match(shown) and not isinstance(statement, exp.Comment):
            yield f"it does not take anything away, or holds a lock for long: {shown[:120]}"

    def _alter(self, statement: exp.Alter, action: exp.Expression, shown: str) -> Iterator[str]:
        if isinstance(action, exp.AddConstraint):
            if "NOT VALID" not in shown.upper():
                yield f"a constraint of rows that are there is `not valid` at first: {shown[:120]}"
        elif isinstance(action, exp.AlterColumn):
            if action.args.get("dtype"):
                yield f"a change of type rewrites the table: {shown[:120]}"
            elif action.args.get("allow_null") is False and (_table(statement), action.name) not in self._not_null:
                yield f"an earlier migration validates `check ({action.name} is not null)` first: {shown[:120]}"
        elif not isinstance(action, exp.Drop) or action.args.get("cascade"):
            yield f"it does not take away what it names, and nothing else: {shown[:120]}"
