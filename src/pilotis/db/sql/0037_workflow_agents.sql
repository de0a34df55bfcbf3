-- owner: workflows
-- Agent steps: where an app's models are, and the conversation of a step that runs.

create table pilotis.ai_providers (
    app_id uuid primary key references pilotis.apps on delete cascade,
    base_url text not null,
    -- Both under the app's data key.
    api_key bytea,
    headers bytea,
    header_names text[] not null,
    default_model text,
    prices json not null,
    updated_at timestamptz not null default now()
);

alter table pilotis.workflow_steps add column state json;
