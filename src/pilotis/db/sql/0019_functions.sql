-- owner: functions
-- Functions of apps: their versions with the source, variables, triggers, and how calls of them ended. Variables are
-- encrypted under the app's data key.

create table pilotis.functions (
    app_id uuid not null references pilotis.apps on delete cascade,
    function_id uuid not null,
    name text not null,
    description text not null,
    runtime text not null check (runtime in ('javascript', 'python')),
    entrypoint text,
    invoke_access text not null check (invoke_access in ('Public', 'AppMember', 'Secret')),
    scopes text[] not null,
    timeout_seconds double precision not null,
    memory_mb integer not null,
    egress_mode text not null check (egress_mode in ('none', 'allowlist', 'public')),
    egress_hosts text[] not null,
    is_active boolean not null default true,
    active_version integer,
    latest_version integer not null default 0,
    -- What changes it makes new sandboxes: variables, memory, egress.
    revision bigint not null default 0,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (app_id, function_id),
    unique (app_id, name)
);

create table pilotis.function_versions (
    app_id uuid not null,
    function_id uuid not null,
    version integer not null,
    version_id uuid not null,
    status text not null check (status in ('queued', 'building', 'ready', 'failed', 'expired')),
    runtime_version text not null,
    entrypoint text not null,
    source bytea,
    source_bytes integer not null,
    bundle_bytes integer not null,
    sha256 text not null,
    packages jsonb not null default '[]',
    warnings jsonb not null default '[]',
    error text,
    build_log text not null default '',
    message text not null,
    created_by text,
    created_at timestamptz not null default now(),
    ready_at timestamptz,
    primary key (app_id, function_id, version),
    foreign key (app_id, function_id) references pilotis.functions on delete cascade
);
-- The files are compressed already.
alter table pilotis.function_versions alter column source set storage external;

-- One of each function and console user, replaced in place.
create table pilotis.function_drafts (
    app_id uuid not null,
    function_id uuid not null,
    user_id text not null,
    revision bigint not null,
    entrypoint text not null,
    source bytea not null,
    source_bytes integer not null,
    sha256 text not null,
    created_at timestamptz not null default now(),
    primary key (app_id, function_id, user_id),
    foreign key (app_id, function_id) references pilotis.functions on delete cascade
);

-- `function_id` is nil for variables of the app.
create table pilotis.function_variables (
    app_id uuid not null references pilotis.apps on delete cascade,
    function_id uuid not null,
    name text not null,
    value bytea not null,
    value_bytes integer not null,
    updated_at timestamptz not null default now(),
    updated_by text,
    primary key (app_id, function_id, name)
);

create table pilotis.function_executions (
    app_id uuid not null,
    function_id uuid not null,
    execution_id uuid not null,
    version text not null,
    status text not null check (status in ('success', 'error', 'timeout')),
    trigger text not null,
    caller_type text not null,
    caller_id text,
    start text,
    duration double precision not null,
    queue_ms double precision not null,
    load_ms double precision not null,
    cpu_ms double precision not null,
    peak_memory_mb double precision,
    error text,
    error_code text,
    request_id text,
    workflow_execution_id uuid,
    step_id text,
    logs jsonb not null default '[]',
    log_lines integer not null,
    log_dropped integer not null,
    started_at timestamptz not null,
    finished_at timestamptz not null,
    primary key (app_id, function_id, execution_id),
    foreign key (app_id, function_id) references pilotis.functions on delete cascade
);
create index function_executions_by_age on pilotis.function_executions (finished_at);

-- Every call counts, by the minute, how it ended, and how long it took: `bucket` is the power of two of microseconds.
create table pilotis.function_stats (
    app_id uuid not null,
    function_id uuid not null,
    minute timestamptz not null,
    status text not null,
    bucket smallint not null,
    calls bigint not null,
    primary key (app_id, function_id, minute, status, bucket),
    foreign key (app_id, function_id) references pilotis.functions on delete cascade
);
create index function_stats_by_age on pilotis.function_stats (minute);

create table pilotis.function_triggers (
    app_id uuid not null,
    function_id uuid not null,
    trigger_id uuid not null,
    type text not null check (type in ('schedule', 'event')),
    is_active boolean not null,
    cron text,
    timezone text,
    events text[],
    table_id uuid,
    storage_id uuid,
    batch boolean not null default false,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (app_id, trigger_id),
    foreign key (app_id, function_id) references pilotis.functions on delete cascade
);
create index function_triggers_by_function on pilotis.function_triggers (app_id, function_id);
