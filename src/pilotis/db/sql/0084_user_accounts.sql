-- owner: user_accounts
-- Second factors of console users, under the master key; `name` names each secret.
create table pilotis.user_totp (
    user_id uuid primary key references pilotis.users on delete cascade,
    name text not null unique,
    secret bytea not null,
    -- The time step of the last code that was accepted: none works twice.
    last_step bigint not null default 0,
    -- Null until the user has entered a code.
    confirmed_at timestamptz(3),
    created_at timestamptz(3) not null default now()
);
create table pilotis.user_recovery_codes (
    user_id uuid not null references pilotis.users on delete cascade,
    number smallint not null,
    name text not null unique,
    code bytea not null,
    primary key (user_id, number)
);
