"""Each migration does what its phase allows, and the reader of phases finds what it does not."""

import pytest

from pilotis.db.migrations import Migration, all_migrations
from tests.db.phases import BASE, faults

NUMBER = BASE + 90
TABLE = "create table pilotis.later (a uuid primary key, b integer check (b > 0));"
NOT_NULL = "alter table pilotis.apps add constraint c check (name is not null) not valid"
CHECKED = (
    Migration(NUMBER - 2, "x.sql", f"-- phase: contract\n-- needs: 1\n-- version: 0.2.0\n{NOT_NULL}"),
    Migration(
        NUMBER - 1,
        "y.sql",
        "-- phase: contract\n-- needs: 1\n-- version: 0.2.0\nalter table pilotis.apps validate constraint c",
    ),
)


def test_migrations_do_what_their_phases_allow():
    known = all_migrations()
    found = {one.name: faults(one, known[:at]) for at, one in enumerate(known) if one.number > BASE}
    assert found
    assert {name: listed for name, listed in found.items() if listed} == {}


def expand(sql: str) -> Migration:
    return Migration(NUMBER, "z.sql", f"-- owner: x\n-- phase: expand\n{sql}")


def contract(sql: str) -> Migration:
    return Migration(NUMBER, "z.sql", f"-- owner: x\n-- phase: contract\n-- needs: 105\n-- version: 0.2.0\n{sql}")


@pytest.mark.parametrize(
    "sql",
    [
        TABLE,
        f"{TABLE} create index l on pilotis.later (b); insert into pilotis.later values (null, 1)",
        "alter table pilotis.apps add column x text, add column y boolean not null default false",
        "alter table pilotis.apps add column x timestamptz(3) not null default now(), add column y text[] default '{}'",
        "alter table pilotis.apps add column x uuid references pilotis.users on delete cascade",
        "alter table pilotis.apps add column x int; alter table pilotis.apps add constraint c check (x > 0) not valid",
        "create unique index concurrently x on pilotis.apps (name) where later",
        "create function pilotis.f(a text) returns text language plpgsql as $$ begin return 1; end $$",
        "create view pilotis.v as select 1",
        "create trigger t after insert on pilotis.apps for each row"
        " when (current_setting('pilotis.x', true) = 'on') execute function pilotis.f()",
    ],
)
def test_what_the_version_before_does_not_notice_may_expand(sql: str):
    assert faults(expand(sql)) == []


@pytest.mark.parametrize(
    "sql",
    [
        "drop table pilotis.apps",
        "alter table pilotis.apps drop column name",
        "alter table pilotis.apps rename to x",
        "alter table pilotis.apps rename column name to x",
        "alter table pilotis.apps alter column name set not null",
        "alter table pilotis.apps alter column name type bytea",
        "alter table pilotis.apps alter column name set default 'x'",
        "alter table pilotis.apps add column x text not null",
        "alter table pilotis.apps add column x uuid default gen_random_uuid()",
        "alter table pilotis.apps add column x timestamptz default clock_timestamp()",
        "alter table pilotis.apps add column x int generated always as (1 + 1) stored",
        "alter table pilotis.apps add column x int check (x > 0)",
        "alter table pilotis.apps add column x int unique",
        "alter table pilotis.apps add constraint c check (name <> '') not valid",
        "alter table pilotis.apps add column x int; alter table pilotis.apps add constraint c check (x > 0)",
        "create index x on pilotis.apps (name)",
        "create index concurrently x on pilotis.apps (name); create table pilotis.later (a int)",
        "create or replace function pilotis.f() returns int language sql as 'select 1'",
        "create trigger t after delete on pilotis.apps for each row execute function pilotis.f()",
        "create trigger t after insert on pilotis.apps for each row when (new.a = 'on') execute function pilotis.f()",
        "update pilotis.apps set name = ''",
        "insert into pilotis.apps (name) values ('x')",
        "do $$ begin end $$",
        "lock table pilotis.apps",
        "vacuum full pilotis.apps",
        "-- needs: 3\nselect 1",
    ],
)
def test_what_it_would_notice_may_not(sql: str):
    assert faults(expand(sql))


@pytest.mark.parametrize(
    "sql",
    [
        "drop table pilotis.apps; drop index pilotis.x; drop function pilotis.f(text)",
        "alter table pilotis.apps drop column name, drop constraint c",
        "alter table pilotis.apps alter column name set default 'x', alter column x drop not null",
        "alter table pilotis.apps add constraint c check (name <> '') not valid",
        "alter table pilotis.apps validate constraint c",
        "alter table pilotis.apps alter column name set not null",
        "create unique index concurrently x on pilotis.apps (name)",
        "create or replace function pilotis.f() returns int language plpgsql as $$ begin end $$",
    ],
)
def test_what_nobody_uses_may_be_taken_away(sql: str):
    assert faults(contract(sql), CHECKED) == []


@pytest.mark.parametrize(
    "sql",
    [
        "drop table pilotis.apps cascade",
        "alter table pilotis.apps drop column name cascade",
        "drop index concurrently pilotis.x",
        "alter table pilotis.apps rename column name to x",
        "alter table pilotis.apps alter column name type bytea",
        "alter table pilotis.apps alter column version set not null",
        "alter table pilotis.apps add constraint c check (name <> '')",
        f"{NOT_NULL}; alter table pilotis.apps validate constraint c",
        "alter table pilotis.apps add column x text",
        "create table pilotis.x (a int)",
        "update pilotis.apps set name = ''",
        "create unique index x on pilotis.apps (name)",
        "do $$ begin end $$",
    ],
)
def test_what_takes_long_or_what_is_not_named_may_not(sql: str):
    assert faults(contract(sql), CHECKED)


@pytest.mark.parametrize(
    "header",
    [
        "-- owner: x",
        "-- phase: later",
        "-- phase: expand\n-- phase: contract",
        "-- phase: contract",
        "-- phase: contract\n-- needs: 105",
        "-- phase: contract\n-- version: 0.2.0",
        f"-- phase: contract\n-- needs: {NUMBER}\n-- version: 0.2.0",
    ],
)
def test_a_migration_names_its_phase_and_what_it_needs(header: str):
    assert faults(Migration(NUMBER, "z.sql", f"{header}\ndrop table pilotis.apps"))
