-- owner: user_accounts
-- Passkeys of console users, and what browsers were asked to sign.
create table pilotis.user_passkeys (
    passkey_id uuid primary key,
    user_id uuid not null references pilotis.users on delete cascade,
    credential_id bytea not null,
    -- The key in COSE's form, with the authenticator's model and the credential's id (WebAuthn, section 6.5.1).
    credential bytea not null,
    name text not null,
    sign_count bigint not null,
    is_synced boolean not null,
    created_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3),
    constraint user_passkeys_credential unique (credential_id)
);
create index user_passkeys_user on pilotis.user_passkeys (user_id);

create table pilotis.user_challenges (
    ticket_hash bytea primary key,
    challenge bytea not null,
    -- Null for a sign-in, which names nobody.
    user_id uuid references pilotis.users on delete cascade,
    expires_at timestamptz(3) not null
);
create index user_challenges_expiry on pilotis.user_challenges (expires_at);
