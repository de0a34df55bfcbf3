-- owner: oauth
-- The RSA keys that sign OAuth tokens. `private_key` is encrypted under the master key, and erased once nobody may use
-- it. The newest key of those that sign already signs; until `published_until` a key is in the public key set, and until
-- `known_until` what it signed may still name a session that shall end.
create table pilotis.oauth_keys (
    kid text primary key,
    public_key jsonb not null,
    private_key bytea,
    created_at timestamptz(3) not null default now(),
    signs_from timestamptz not null,
    published_until timestamptz,
    known_until timestamptz
);
