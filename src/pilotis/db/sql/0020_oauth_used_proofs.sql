-- owner: oauth
-- The DPoP proofs that were used, so that none is taken twice by any node (RFC 9449, section 11.1).
create table pilotis.oauth_used_proofs (
    app_id uuid not null,
    hash bytea not null,
    expires_at timestamptz(3) not null,
    primary key (app_id, hash)
);
create index oauth_used_proofs_expires on pilotis.oauth_used_proofs (expires_at);
