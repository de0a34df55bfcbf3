-- owner: db

-- The newest migration that a program must know to work on the database once this one is applied; 0: none. So an older
-- program that is still serving can tell whether a newer schema concerns it.
alter table pilotis.migrations add column needs integer not null default 0;
