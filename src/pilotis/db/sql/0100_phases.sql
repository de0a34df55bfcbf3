-- owner: db
-- phase: expand

-- The newest migration that a process knows; 0 for programs that do not say so. Nothing is taken away that one of them
-- still uses.
alter table pilotis.nodes add column knows integer not null default 0;

-- The first version of the program that knows the migration which `needs` names, for the sentence of an older one.
alter table pilotis.migrations add column least_version text;

-- What takes something away, and waits for the last process that uses it.
create table pilotis.pending_migrations (
    number integer primary key,
    name text not null,
    needs integer not null,
    listed_at timestamptz(3) not null default now()
);
