-- owner: oauth
-- Clients that registered without a credential belong to no app. At the first request to an app that allows it, such a
-- client, or one that is described by a document of its own, becomes a client of that app, with the same id.
create table pilotis.oauth_registrations (
    client_id text primary key,
    metadata jsonb not null,
    secret_hash bytea,
    created_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3) not null default now()
);
create index oauth_registrations_used on pilotis.oauth_registrations (last_used_at);
alter table pilotis.oauth_clients add is_dynamic boolean not null default false;
create index oauth_clients_dynamic on pilotis.oauth_clients (created_at) where is_dynamic;
