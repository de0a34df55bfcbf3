-- owner: members
-- The rows that were made with a guest, as pairs of table and row: its promotion makes those that are missing.
alter table pilotis.members add column made_rows jsonb not null default '[]';
