-- owner: data.realtime
-- Who may listen to an app's rows beside what the rules say: nobody, members, or everybody; by table where that differs.
create table pilotis.live_settings (
    app_id uuid primary key references pilotis.apps on delete cascade,
    live text not null check (live in ('off', 'members', 'public')),
    tables jsonb not null default '{}'
);
