-- owner: data.realtime
-- The last messages of channels that keep them, for those who join; `body` is the data of the event, JSON.
create table pilotis.kept_messages (
    app_id uuid not null references pilotis.apps on delete cascade,
    seq bigint generated always as identity,
    name text not null,
    message_id uuid not null,
    member_id text,
    body text not null,
    bytes integer not null,
    at timestamptz not null,
    expires_at timestamptz not null,
    primary key (app_id, seq)
);
create index kept_messages_name on pilotis.kept_messages (app_id, name, seq);
create index kept_messages_expiry on pilotis.kept_messages (expires_at);

-- The channels with events that processes have listeners to, and whether the app was told that somebody listens.
create table pilotis.occupied_channels (
    app_id uuid not null references pilotis.apps on delete cascade,
    name text not null,
    nodes uuid[] not null,
    is_occupied boolean not null default false,
    told_at timestamptz not null default '-infinity',
    primary key (app_id, name)
);
