-- owner: accounts
-- Proofs that were mailed: a link, with or without a code, that prove who reads an address. Deleted when used.
create table pilotis.account_proofs (
    app_id uuid not null,
    proof_id uuid not null,
    purpose text not null,
    member_id text not null,
    email text not null,
    email_folded text not null,
    link_hash bytea not null,
    -- What a code is bound to: the session that asked, or the hash of a ticket that it was given.
    session_id uuid,
    ticket_hash bytea,
    code_hmac bytea,
    tries integer not null default 0,
    -- The hash of the password's hash, which must still be the member's.
    password_version bytea,
    created_at timestamptz(3) not null default now(),
    code_expires_at timestamptz(3),
    expires_at timestamptz(3) not null,
    primary key (app_id, proof_id),
    constraint account_proofs_link unique (app_id, link_hash),
    foreign key (app_id, member_id) references pilotis.members on delete cascade
);
create index account_proofs_member on pilotis.account_proofs (app_id, member_id);
create index account_proofs_email on pilotis.account_proofs (app_id, email_folded);
create index account_proofs_expiry on pilotis.account_proofs (expires_at);
