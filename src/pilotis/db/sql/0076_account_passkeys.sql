-- owner: accounts
-- Passkeys of members, and what a browser is asked to sign: deleted when it is used.
create table pilotis.account_passkeys (
    app_id uuid not null,
    passkey_id uuid not null,
    member_id text not null,
    credential_id bytea not null,
    -- The key in COSE's form, with the authenticator's model and the credential's id (WebAuthn, section 6.5.1).
    credential bytea not null,
    name text not null,
    sign_count bigint not null,
    is_synced boolean not null,
    created_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3),
    primary key (app_id, passkey_id),
    constraint account_passkeys_credential unique (app_id, credential_id),
    foreign key (app_id, member_id) references pilotis.members on delete cascade
);
create index account_passkeys_member on pilotis.account_passkeys (app_id, member_id);

create table pilotis.account_challenges (
    app_id uuid not null references pilotis.apps on delete cascade,
    ticket_hash bytea not null,
    challenge bytea not null,
    -- Null for a sign-in, which names nobody.
    member_id text,
    expires_at timestamptz(3) not null,
    primary key (app_id, ticket_hash)
);
create index account_challenges_expiry on pilotis.account_challenges (expires_at);
