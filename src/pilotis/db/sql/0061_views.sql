-- owner: data.views
-- Views: saved pipelines. Their text is kept as it was written, since the order of members matters in it; columns are
-- named by number, tables by id. `table_ids` are all tables that one reads, its own among them.
create table pilotis.views (
    app_id uuid not null references pilotis.apps on delete cascade,
    view_id uuid not null,
    name text not null,
    table_id uuid not null,
    table_ids uuid[] not null,
    pipeline json not null,
    params json not null,
    read_rule json not null,
    run_as text not null check (run_as in ('caller', 'app')),
    cache_seconds integer not null,
    description text,
    version bigint not null default 1,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (app_id, view_id),
    constraint view_name_unique unique (app_id, name)
);
