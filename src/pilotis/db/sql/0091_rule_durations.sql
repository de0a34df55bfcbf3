-- owner: data.rules
-- How long the statements took that a table's rules limit, by the hour of the day: each row is of the last such hour.
create table pilotis.rule_durations (
    app_id uuid not null,
    table_id uuid not null,
    hour smallint not null,
    starts_at timestamptz not null,
    buckets bigint[] not null,
    primary key (app_id, table_id, hour),
    foreign key (app_id, table_id) references pilotis.tables on delete cascade
);
