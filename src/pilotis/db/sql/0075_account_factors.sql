-- owner: accounts
-- Second factors of members. `members.factors` says which kinds a member has, in the same transaction.
create table pilotis.account_totp (
    app_id uuid not null,
    member_id text not null,
    -- Under the app's data key.
    secret bytea not null,
    -- The time step of the last code that was accepted: none works twice.
    last_step bigint not null default 0,
    -- Null until the member has entered a code.
    confirmed_at timestamptz(3),
    created_at timestamptz(3) not null default now(),
    primary key (app_id, member_id),
    foreign key (app_id, member_id) references pilotis.members on delete cascade
);

create table pilotis.account_recovery_codes (
    app_id uuid not null,
    member_id text not null,
    number smallint not null,
    -- Under the app's data key: what is stored outlives a change of the master key.
    code bytea not null,
    primary key (app_id, member_id, number),
    foreign key (app_id, member_id) references pilotis.members on delete cascade
);
