-- owner: security.single_use
-- Values that are good for one use, such as those in links: only their hash is stored. Of one subject the last one alone
-- is good. `pilotis.password_resets`, which this replaces, stays until no node reads it any more.
create table pilotis.single_use (
    app_id uuid not null,
    hash bytea not null,
    purpose text not null,
    subject text,
    data jsonb not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    used_at timestamptz,
    primary key (app_id, hash)
);
create unique index single_use_subject on pilotis.single_use (app_id, purpose, subject)
    where subject is not null and used_at is null;
create index single_use_expires on pilotis.single_use (expires_at);
