-- owner: events
-- What happens in an app, told to whoever listens. Events of rows are written by the statements on rows themselves into
-- a table of the app's own schema; all others into pilotis.events.

create function pilotis.uuid7() returns uuid
    language sql volatile parallel safe
    return encode(
        set_bit(set_bit(
            overlay(
                uuid_send(gen_random_uuid())
                placing substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6
            ), 52, 1), 53, 1),
        'hex')::uuid;

create table pilotis.event_targets (
    app_id uuid not null,
    kind text not null,
    target_id uuid not null,
    types text[] not null,
    table_ids uuid[],
    storage_id uuid,
    state text not null check (state in ('arming', 'active')),
    primary key (app_id, kind, target_id)
);

create table pilotis.events (
    app_id uuid not null,
    event_id uuid not null,
    type text not null,
    version smallint not null default 1,
    table_id uuid,
    storage_id uuid,
    member_id text,
    subject text,
    actor_kind text not null,
    actor_id text,
    depth smallint not null default 0,
    data json not null,
    created_at timestamptz not null default now(),
    dispatched_at timestamptz,
    tries smallint not null default 0,
    primary key (app_id, event_id)
);
create index events_undispatched on pilotis.events (app_id, event_id) where dispatched_at is null and tries < 3;
create index events_by_age on pilotis.events (created_at) where dispatched_at is not null;

-- The apps with a table that emits: which outboxes there are to look at, and when at the latest.
create table pilotis.outboxes (
    app_id uuid primary key,
    due_at timestamptz not null default now()
);
create index outboxes_due on pilotis.outboxes (due_at);

alter table pilotis.tables add column emits text[] not null default '{}';
