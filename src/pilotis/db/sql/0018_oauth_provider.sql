-- owner: oauth
-- What makes an app a provider: its settings, the authorization requests that wait for a member, what members have
-- consented to, and the grants that codes and tokens belong to. Of every random value the hash is stored.
create table pilotis.oauth_settings (
    app_id uuid primary key references pilotis.apps on delete cascade,
    is_provider boolean not null default false,
    access_token_seconds integer not null default 600,
    refresh_idle_days integer not null default 30,
    refresh_absolute_days integer not null default 365,
    consent_url text,
    login_redirect_uris text[] not null default '{}',
    resources text[] not null default '{}',
    dynamic_clients boolean not null default false,
    dynamic_scopes text[] not null default '{}',
    dpop_nonce text not null default 'offered',
    link_by_verified_email boolean not null default false,
    first_party_client_id text,
    public_key text,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
);
alter table pilotis.oauth_scopes
    add translations jsonb not null default '{}',
    add claims jsonb not null default '{}';
alter table pilotis.oauth_clients
    add consumer_app_id uuid references pilotis.apps on delete cascade,
    add client_uri text,
    add logo_url text,
    add policy_uri text,
    add tos_uri text,
    add jwks jsonb,
    add resources text[] not null default '{}',
    add backchannel_logout_uri text,
    add backchannel_logout_session_required boolean not null default false,
    add is_resource_server boolean not null default false,
    add require_pushed_authorization_requests boolean not null default false,
    add dpop_bound_access_tokens boolean not null default false,
    add first_party boolean not null default false;
create index oauth_clients_consumer on pilotis.oauth_clients (consumer_app_id) where consumer_app_id is not null;

-- Authorization requests: pushed ones, and those that wait for a member's decision. `app_id` is the provider's.
create table pilotis.oauth_requests (
    app_id uuid not null references pilotis.apps on delete cascade,
    hash bytea not null,
    client_id text not null,
    is_pushed boolean not null default false,
    pushed_hash bytea,
    request jsonb not null,
    member_id text,
    browser_hash bytea,
    state text not null default 'pending',
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    primary key (app_id, hash)
);
create index oauth_requests_expires on pilotis.oauth_requests (expires_at);
create table pilotis.oauth_consents (
    app_id uuid not null references pilotis.apps on delete cascade,
    consent_id uuid not null,
    member_id text not null,
    client_id text not null,
    scopes text[] not null,
    granted_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3),
    primary key (app_id, consent_id)
);
create unique index oauth_consents_member on pilotis.oauth_consents (app_id, member_id, client_id);
create index oauth_consents_client on pilotis.oauth_consents (app_id, client_id);

-- The browsers in which a member is signed in with the provider: the cookie's hash, and the session it stands for.
create table pilotis.oauth_browsers (
    app_id uuid not null references pilotis.apps on delete cascade,
    hash bytea not null,
    session_id uuid not null,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    primary key (app_id, hash)
);
create index oauth_browsers_expires on pilotis.oauth_browsers (expires_at);

-- A grant ends with its session unless it is offline. The refresh columns are those of `pilotis.sessions`.
create table pilotis.oauth_grants (
    app_id uuid not null references pilotis.apps on delete cascade,
    grant_id uuid not null,
    client_id text not null,
    member_id text not null,
    session_id uuid not null,
    consent_id uuid,
    is_offline boolean not null,
    scopes text[] not null,
    resources text[] not null default '{}',
    jkt text,
    is_bound boolean not null default false,
    issuer text not null,
    auth_time timestamptz(3) not null,
    amr text[] not null default '{}',
    refresh_id uuid,
    previous_refresh_id uuid,
    refreshed_at timestamptz(3),
    refresh_expires_at timestamptz(3),
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    revoked_at timestamptz(3),
    revoke_reason text,
    primary key (app_id, grant_id)
);
create index oauth_grants_session on pilotis.oauth_grants (app_id, session_id);
create index oauth_grants_consent on pilotis.oauth_grants (app_id, consent_id);
create index oauth_grants_client on pilotis.oauth_grants (app_id, client_id);
create index oauth_grants_expires on pilotis.oauth_grants (expires_at);
create table pilotis.oauth_codes (
    app_id uuid not null references pilotis.apps on delete cascade,
    hash bytea not null,
    grant_id uuid not null,
    redirect_uri text not null,
    code_challenge text not null,
    nonce text,
    jkt text,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    used_at timestamptz(3),
    primary key (app_id, hash)
);
create index oauth_codes_expires on pilotis.oauth_codes (expires_at);
create table pilotis.oauth_revoked (
    app_id uuid not null references pilotis.apps on delete cascade,
    jti uuid not null,
    expires_at timestamptz(3) not null,
    primary key (app_id, jti)
);
create index oauth_revoked_expires on pilotis.oauth_revoked (expires_at);
