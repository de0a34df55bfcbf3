-- owner: jobs
-- Background work: the processes that do it, what is to be done once, what is held by one process at a time, and what
-- recurs. The nil UUID as app_id stands for the server's own work.

-- One row for each running process. Holding work ends when the row is deleted, by its process at an orderly stop or by
-- another process after lease_until.
create table pilotis.nodes (
    node_id uuid primary key,
    server_id uuid not null,
    slot smallint not null,
    name text not null,
    version text not null,
    started_at timestamptz not null default now(),
    lease_until timestamptz not null
);
create index nodes_by_lease on pilotis.nodes (lease_until);

create table pilotis.jobs (
    app_id uuid not null,
    job_id uuid not null,
    queue text not null,
    kind text not null,
    key text,
    subject text,
    payload jsonb not null,
    depth smallint not null default 0,
    state text not null default 'waiting' check (state in ('waiting', 'running', 'dead')),
    run_at timestamptz not null,
    owner uuid,
    fence bigint not null default 0,
    attempts integer not null default 0,
    losses integer not null default 0,
    again boolean not null default false,
    error jsonb,
    created_at timestamptz not null default now(),
    ended_at timestamptz,
    primary key (app_id, job_id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index jobs_due on pilotis.jobs (queue, run_at) where state = 'waiting';
create index jobs_by_app on pilotis.jobs (queue, app_id, run_at) where state = 'waiting';
create unique index jobs_key on pilotis.jobs (app_id, kind, key) where key is not null and state <> 'dead';
create index jobs_held on pilotis.jobs (owner) where owner is not null;
create index jobs_dead on pilotis.jobs (app_id, kind, subject, job_id) where state = 'dead';

-- A lane is a target that one process at a time works for, such as the receiver of a webhook. work_seq counts what was
-- added, so that a holder that gives the lane back cannot overlook what came in the meantime.
create table pilotis.lanes (
    app_id uuid not null,
    kind text not null,
    target_id uuid not null,
    due_at timestamptz,
    owner uuid,
    fence bigint not null default 0,
    work_seq bigint not null default 0,
    failures integer not null default 0,
    open_at timestamptz,
    primary key (app_id, kind, target_id)
) with (fillfactor = 70);
create index lanes_due on pilotis.lanes (kind, due_at) where owner is null and due_at is not null;
create index lanes_by_app on pilotis.lanes (kind, app_id, due_at) where owner is null and due_at is not null;
create index lanes_held on pilotis.lanes (owner) where owner is not null;

create table pilotis.schedules (
    app_id uuid not null,
    schedule_id uuid not null,
    kind text not null,
    target_id text not null,
    every_seconds float8,
    cron text,
    timezone text,
    next_run_at timestamptz,
    last_run_at timestamptz,
    primary key (app_id, schedule_id),
    check ((every_seconds is null) <> (cron is null))
);
create index schedules_due on pilotis.schedules (next_run_at) where next_run_at is not null;
