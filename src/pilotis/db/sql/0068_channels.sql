-- owner: data.realtime
-- The channels that an app has declared: a JSON array of patterns with the stored form of their rules.
create table pilotis.channels (
    app_id uuid primary key,
    patterns jsonb not null,
    updated_at timestamptz(3) not null default now()
);

-- What processes tell each other about channels. A crash loses it, as it ends their streams.
create unlogged table pilotis.channel_messages (
    seq bigint generated always as identity primary key,
    xid xid8 not null default pg_current_xact_id(),
    app_id uuid not null,
    node_id uuid not null,
    body text not null,
    at timestamptz not null default now()
);
create index channel_messages_xid on pilotis.channel_messages (app_id, xid);

-- The processes that have listeners to an app's channels, until when they have said so.
create unlogged table pilotis.channel_nodes (
    app_id uuid not null,
    node_id uuid not null,
    until timestamptz not null,
    primary key (app_id, node_id)
);
