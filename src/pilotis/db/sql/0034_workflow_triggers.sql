-- owner: workflows
-- Trigger URLs of workflows: their tokens, the deliveries that were accepted, and requests whose function runs later.

create table pilotis.workflow_triggers (
    app_id uuid not null,
    workflow_id uuid not null,
    -- SHA-256 of the token, and the token itself under the app's data key, to be shown again.
    token_hash bytea not null,
    token bytea not null,
    -- After a rotation the token before it works until then.
    previous_hash bytea,
    previous_until timestamptz,
    is_active boolean not null default true,
    methods text[] not null,
    dedupe json,
    created_at timestamptz not null default now(),
    last_called_at timestamptz,
    primary key (app_id, workflow_id),
    foreign key (app_id, workflow_id) references pilotis.workflows on delete cascade
);
create unique index workflow_triggers_by_token on pilotis.workflow_triggers (token_hash);
create index workflow_triggers_by_previous on pilotis.workflow_triggers (previous_hash) where previous_hash is not null;

-- A delivery is reserved until `lease_until` while its first function runs, then accepted or deleted.
create table pilotis.workflow_deliveries (
    app_id uuid not null,
    workflow_id uuid not null,
    delivery_hash bytea not null,
    execution_id uuid not null,
    is_accepted boolean not null default false,
    lease_until timestamptz not null,
    created_at timestamptz not null default now(),
    primary key (app_id, workflow_id, delivery_hash),
    foreign key (app_id, workflow_id) references pilotis.workflows on delete cascade
);
create index workflow_deliveries_old on pilotis.workflow_deliveries (created_at);

-- The request of an execution whose first function does not run inside it, under the app's data key.
create table pilotis.workflow_requests (
    app_id uuid not null,
    execution_id uuid not null,
    request bytea not null,
    primary key (app_id, execution_id),
    foreign key (app_id, execution_id) references pilotis.workflow_executions on delete cascade
);
