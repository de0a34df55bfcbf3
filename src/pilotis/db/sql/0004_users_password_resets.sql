-- owner: users
-- One link at a time for a console user who forgot the password.
create table pilotis.password_resets (
    user_id uuid primary key references pilotis.users on delete cascade,
    token_hash bytea not null unique,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null
);
