-- owner: webhooks
-- Webhooks, and the deliveries of events to them. Secrets and custom headers are encrypted under the app's data key.

create table pilotis.webhooks (
    app_id uuid not null references pilotis.apps on delete cascade,
    webhook_id uuid not null,
    name text not null,
    description text not null,
    url text not null,
    event_types text[] not null,
    table_ids uuid[],
    provider_app_id uuid,
    client_id text,
    headers bytea,
    header_names text[] not null default '{}',
    secret bytea not null,
    secret_prefix text not null,
    previous_secret bytea,
    previous_secret_expires_at timestamptz,
    timeout_seconds smallint not null,
    max_in_flight smallint not null,
    is_active boolean not null,
    disabled_reason text,
    listening_until timestamptz,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (app_id, webhook_id)
);

-- Written by whoever holds the webhook's lane, apart from what console users write.
create table pilotis.webhook_health (
    app_id uuid not null,
    webhook_id uuid not null,
    failing_since timestamptz,
    failed_count integer not null default 0,
    last_success_at timestamptz,
    last_failure_at timestamptz,
    primary key (app_id, webhook_id),
    foreign key (app_id, webhook_id) references pilotis.webhooks on delete cascade
) with (fillfactor = 50);

create table pilotis.deliveries (
    app_id uuid not null,
    delivery_id uuid not null,
    target_id uuid not null,
    event_app_id uuid not null,
    event_id uuid not null,
    event_type text not null,
    is_test boolean not null default false,
    state text not null check (state in ('pending', 'succeeded', 'failed', 'cancelled')),
    attempts integer not null default 0,
    tries integer not null default 0,
    next_attempt_at timestamptz,
    next_attempt_reason text,
    status_code integer,
    error text,
    duration_ms integer,
    created_at timestamptz not null default now(),
    finished_at timestamptz,
    primary key (app_id, delivery_id)
) with (fillfactor = 80);
create index deliveries_due on pilotis.deliveries (app_id, target_id, next_attempt_at) where state = 'pending';
create index deliveries_by_target on pilotis.deliveries (app_id, target_id, delivery_id);
create index deliveries_finished on pilotis.deliveries (app_id, target_id, finished_at) where finished_at is not null;
create index deliveries_by_age on pilotis.deliveries (finished_at) where finished_at is not null;
create index deliveries_by_event on pilotis.deliveries (event_app_id, event_id);

create table pilotis.delivery_attempts (
    app_id uuid not null,
    delivery_id uuid not null,
    number integer not null,
    at timestamptz not null,
    duration_ms integer not null,
    status_code integer,
    error text,
    response_excerpt text,
    response_headers json,
    fence bigint not null default 0,
    primary key (app_id, delivery_id, number)
);
