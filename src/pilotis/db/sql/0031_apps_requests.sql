-- owner: apps
-- The request log of an app: every failed or slow request, and one in a hundred of the others, for 7 days.

create table pilotis.requests (
    app_id uuid not null references pilotis.apps on delete cascade,
    entry_id uuid not null,
    request_id text not null,
    created_at timestamptz(3) not null,
    method text not null,
    route text not null,
    status smallint not null,
    code text,
    duration_ms real not null,
    actor_kind text not null,
    actor_id text,
    address text not null,
    primary key (app_id, entry_id)
);
create index requests_by_time on pilotis.requests (app_id, created_at desc);
create index requests_by_age on pilotis.requests (created_at);

-- Durations of requests: each of the buckets counts those up to its bound in pilotis.apps.requests.durations. The same
-- requests are in a minute, kept for two days, and in an hour, kept for 60.
create table pilotis.request_durations (
    app_id uuid not null references pilotis.apps on delete cascade,
    step text not null check (step in ('minute', 'hour')),
    starts_at timestamptz(0) not null,
    route text not null,
    status smallint not null,
    buckets bigint[] not null,
    primary key (app_id, step, starts_at, route, status)
) with (fillfactor = 70);
create index request_durations_by_age on pilotis.request_durations (step, starts_at);
