-- owner: functions
-- What builds made of packages, found again by what they were made of: versions and drafts of an app share them.

create table pilotis.function_builds (
    app_id uuid not null references pilotis.apps on delete cascade,
    digest text not null,
    packages jsonb not null,
    log text not null,
    -- A bundle of JavaScript, or a zip archive of Python packages.
    built bytea not null,
    created_at timestamptz not null default now(),
    primary key (app_id, digest)
);
alter table pilotis.function_builds alter column built set storage external;

alter table pilotis.function_versions add column build_digest text;
-- Whether the version becomes the active one as soon as it is built.
alter table pilotis.function_versions add column activates boolean not null default false;
alter table pilotis.function_drafts add column build_digest text;
