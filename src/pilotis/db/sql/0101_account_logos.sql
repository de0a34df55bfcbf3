-- owner: account_pages
-- phase: expand

-- The logos of apps' account pages, as the server has encoded them; the app's account settings have the version.
create table pilotis.account_logos (
    app_id uuid primary key references pilotis.apps on delete cascade,
    image bytea not null,
    updated_at timestamptz(3) not null default now()
);
alter table pilotis.account_logos alter image set storage external;
