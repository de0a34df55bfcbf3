-- owner: members
-- What the app says of its members, which rules ask for.
alter table pilotis.members
    add column roles text[] not null default '{}',
    add column claims jsonb not null default '{}';
