-- owner: archive
-- phase: expand

-- When archives of an app are made, and how many of those are kept; the times themselves are in `schedules`.
create table pilotis.archive_schedules (
    app_id uuid primary key references pilotis.apps on delete cascade,
    cron text not null,
    timezone text,
    keep integer not null check (keep > 0),
    -- Under the app's data key.
    passphrase bytea,
    with_secrets boolean not null
);

alter table pilotis.app_archives add column is_scheduled boolean not null default false;
