-- owner: members
-- Sign-ins that wait for a second factor: deleted when they are finished, or after five tries.
create table pilotis.sign_in_tickets (
    app_id uuid not null,
    ticket_hash bytea not null,
    member_id text not null,
    -- The session to begin.
    session_id uuid not null,
    methods text[] not null,
    -- The hash of the password's hash, which must still be the member's.
    password_version bytea not null,
    -- What a passkey signs, where one was asked for.
    challenge bytea,
    tries integer not null default 0,
    expires_at timestamptz(3) not null,
    primary key (app_id, ticket_hash),
    foreign key (app_id, member_id) references pilotis.members on delete cascade
);
create index sign_in_tickets_member on pilotis.sign_in_tickets (app_id, member_id);
create index sign_in_tickets_expiry on pilotis.sign_in_tickets (expires_at);
