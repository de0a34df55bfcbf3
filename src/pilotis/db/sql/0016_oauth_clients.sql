-- owner: oauth
-- The scopes that an app offers to other programs, and the clients registered with it. Of a client's secret the hash is
-- stored; the previous one stays good for a while after it was replaced.
create table pilotis.oauth_scopes (
    app_id uuid not null references pilotis.apps on delete cascade,
    name text not null,
    title text not null,
    description text not null default '',
    is_default boolean not null default false,
    is_required boolean not null default false,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    primary key (app_id, name)
);
create table pilotis.oauth_clients (
    app_id uuid not null references pilotis.apps on delete cascade,
    client_id text not null,
    name text not null,
    description text not null default '',
    token_endpoint_auth_method text not null,
    grant_types text[] not null,
    redirect_uris text[] not null default '{}',
    post_logout_redirect_uris text[] not null default '{}',
    scopes text[] not null default '{}',
    is_active boolean not null default true,
    source text not null,
    secret_hash bytea,
    secret_prefix text,
    previous_secret_hash bytea,
    previous_secret_expires_at timestamptz(3),
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3),
    primary key (app_id, client_id)
);
