-- owner: data.realtime
-- The apps whose schemas have a log of changes.
create table pilotis.change_logs (
    app_id uuid primary key
);

-- The tables that somebody listens to, by the process that asks for their changes, until when it does.
create table pilotis.watches (
    app_id uuid not null,
    table_id uuid not null,
    node_id uuid not null,
    until timestamptz not null,
    primary key (app_id, table_id, node_id),
    foreign key (app_id, table_id) references pilotis.tables on delete cascade
);
create index watches_until on pilotis.watches (until);
