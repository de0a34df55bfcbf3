-- owner: certificates
-- The certificates that the server gets for its own names and for the domains of sites, and what it needs to get them.
create table pilotis.https_certificates (
    name text primary key,
    -- PEM, the certificate first; null until there was one.
    chain text,
    -- PEM, encrypted under the master key.
    private_key bytea,
    not_before timestamptz(3),
    not_after timestamptz(3),
    issued_at timestamptz(3),
    renew_at timestamptz(3),
    -- When the authority is asked again when to renew (RFC 9773).
    ask_at timestamptz(3),
    failures int not null default 0,
    error text,
    next_try_at timestamptz(3),
    created_at timestamptz(3) not null default now()
);

-- The account at each authority, by the URL of its directory.
create table pilotis.https_accounts (
    directory text primary key,
    private_key bytea not null,
    url text not null,
    created_at timestamptz(3) not null default now()
);

-- What any node answers to the authority (RFC 8555, section 8.3).
create table pilotis.https_challenges (
    token text primary key,
    name text not null,
    answer text not null,
    created_at timestamptz(3) not null default now()
);
create index https_challenges_created on pilotis.https_challenges (created_at);

-- The orders for the domains of sites in the last hour, of which there may be a number.
create table pilotis.https_orders (
    order_id uuid primary key,
    name text not null,
    started_at timestamptz(3) not null default now()
);
create index https_orders_started on pilotis.https_orders (started_at);
