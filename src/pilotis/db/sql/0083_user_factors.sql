-- owner: users
-- The kinds of second factors that a console user has set up, so that a sign-in sees them with the password.
alter table pilotis.users add column factors text[] not null default '{}';
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
