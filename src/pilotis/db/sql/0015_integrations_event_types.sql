-- owner: integrations
-- Event types that apps declare, and the keys under which events were published.

create table pilotis.event_types (
    app_id uuid not null references pilotis.apps on delete cascade,
    event_type text not null,
    type_id uuid not null,
    title text not null,
    description text not null,
    required_scope text,
    payload_schema json,
    example json,
    version smallint not null,
    deprecated boolean not null,
    source json,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (app_id, event_type)
);

create table pilotis.published_events (
    app_id uuid not null references pilotis.apps on delete cascade,
    key text not null,
    event_id uuid not null,
    event_type text not null,
    happened_at timestamptz not null,
    created_at timestamptz not null default now(),
    primary key (app_id, key)
);
create index published_events_by_age on pilotis.published_events (created_at);
