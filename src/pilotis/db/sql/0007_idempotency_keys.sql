-- owner: security.idempotency
-- Keys that clients give to requests which create something, each with the answer that repeats get (encrypted).
-- `owner` is the node that runs the request; without owner and without status, the node died while it did.
create table pilotis.idempotency_keys (
    app_id uuid not null,
    scope_hash bytea not null,
    body_hash bytea not null,
    resource_id uuid not null,
    owner uuid,
    status smallint,
    reply bytea,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    primary key (app_id, scope_hash)
);
create index idempotency_keys_held on pilotis.idempotency_keys (owner) where owner is not null;
create index idempotency_keys_expires on pilotis.idempotency_keys (expires_at);
