-- owner: data.realtime
-- Tickets by which a browser's EventSource, which sends no headers, opens a live stream.
create table pilotis.live_tickets (
    app_id uuid not null,
    hash bytea not null,
    -- What was asked for, and by whom; without a member by whoever has a public key.
    body jsonb not null,
    member_id text,
    session_id uuid,
    capabilities jsonb not null,
    uses integer not null default 0,
    expires_at timestamptz not null,
    primary key (app_id, hash)
);
create index live_tickets_expiry on pilotis.live_tickets (expires_at);
