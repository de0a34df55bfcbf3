-- owner: workflows
-- Workflows: their definitions, executions with the steps they have taken, and the events of these for streams.

create table pilotis.workflows (
    app_id uuid not null references pilotis.apps on delete cascade,
    workflow_id uuid not null,
    name text not null,
    is_active boolean not null,
    version integer not null,
    max_concurrency integer not null,
    on_overlap text not null check (on_overlap in ('allow', 'skip', 'queue')),
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    -- A deleted workflow keeps its history for a week; nothing reads it.
    deleted_at timestamptz,
    primary key (app_id, workflow_id)
);
create unique index workflows_by_name on pilotis.workflows (app_id, name) where deleted_at is null;
create index workflows_deleted on pilotis.workflows (deleted_at) where deleted_at is not null;

-- What runs goes on under the definition with which it began.
create table pilotis.workflow_versions (
    app_id uuid not null,
    workflow_id uuid not null,
    version integer not null,
    definition json not null,
    created_at timestamptz not null default now(),
    primary key (app_id, workflow_id, version),
    foreign key (app_id, workflow_id) references pilotis.workflows on delete cascade
);

-- `owner` and `fence` are the numbered lease of the process that runs it; `seq` numbers its events. A gated one waits
-- for a place among the `max_concurrency` of its workflow.
create table pilotis.workflow_executions (
    app_id uuid not null,
    execution_id uuid not null,
    workflow_id uuid not null,
    version integer not null,
    status text not null check (status in ('pending', 'running', 'completed', 'failed', 'cancelled', 'timeout')),
    trigger json not null,
    trigger_type text not null,
    input json not null,
    output json,
    error json,
    depth smallint not null default 0,
    attempt integer not null default 1,
    failed_steps integer not null default 0,
    completed_steps integer not null default 0,
    run_at timestamptz not null default now(),
    owner uuid,
    fence bigint not null default 0,
    recoveries integer not null default 0,
    seq integer not null default 1,
    has_limit boolean not null default false,
    is_gated boolean not null default false,
    cancel_requested boolean not null default false,
    slot timestamptz,
    timeout_seconds double precision not null,
    deadline_at timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    started_at timestamptz,
    finished_at timestamptz,
    primary key (app_id, execution_id),
    foreign key (app_id, workflow_id) references pilotis.workflows on delete cascade
) with (fillfactor = 70);
create index workflow_executions_due on pilotis.workflow_executions (app_id, run_at)
    where status = 'pending' and not is_gated;
create index workflow_executions_soonest on pilotis.workflow_executions (run_at)
    where status = 'pending' and not is_gated;
create index workflow_executions_owned on pilotis.workflow_executions (owner) where owner is not null;
create index workflow_executions_open on pilotis.workflow_executions (app_id, workflow_id)
    where status in ('pending', 'running');
create index workflow_executions_listed on pilotis.workflow_executions (app_id, workflow_id, execution_id);
create index workflow_executions_ended on pilotis.workflow_executions (finished_at) where finished_at is not null;
create unique index workflow_executions_slots on pilotis.workflow_executions (app_id, workflow_id, slot)
    where slot is not null;

create table pilotis.workflow_steps (
    app_id uuid not null,
    execution_id uuid not null,
    step_id text not null,
    attempt integer not null,
    try integer not null,
    parent_id text,
    status text not null
        check (status in ('running', 'completed', 'failed', 'timeout', 'cancelled', 'skipped')),
    input json,
    output json,
    error json,
    function_id uuid,
    function_version integer,
    function_execution_id uuid,
    queue_ms double precision,
    duration double precision,
    retry_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    primary key (app_id, execution_id, step_id, attempt, try),
    foreign key (app_id, execution_id) references pilotis.workflow_executions on delete cascade
);

create table pilotis.workflow_events (
    event_id bigint generated always as identity,
    app_id uuid not null,
    execution_id uuid not null,
    workflow_id uuid not null,
    seq integer not null,
    type text not null,
    data json not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (app_id, execution_id, seq),
    foreign key (app_id, execution_id) references pilotis.workflow_executions on delete cascade
);
create index workflow_events_listed on pilotis.workflow_events (app_id, workflow_id, event_id);
