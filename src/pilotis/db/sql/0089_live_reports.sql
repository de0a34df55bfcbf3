-- owner: data.realtime
-- What processes answer when one of them asks for an app's live streams: an answer lives for seconds.
create unlogged table pilotis.live_reports (
    app_id uuid not null,
    question uuid not null,
    node_id uuid not null,
    report text not null,
    at timestamptz not null default now(),
    primary key (app_id, question, node_id)
);
