-- owner: users
-- Second factors of console users: `users.factors` says which kinds one has, so that a sign-in sees them with the
-- password. What is stored of them is under the master key; `name` names each secret.
alter table pilotis.users add column factors text[] not null default '{}';
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
-- Sign-ins that wait for a second factor: deleted when they are finished, or after five tries.
create table pilotis.user_tickets (
    ticket_hash bytea primary key,
    user_id uuid not null references pilotis.users on delete cascade,
    -- The hash of the password's hash, which must still be the user's.
    password_version bytea not null,
    tries integer not null default 0,
    expires_at timestamptz(3) not null
);
create index user_tickets_expiry on pilotis.user_tickets (expires_at);
