-- owner: oauth
-- The pictures of clients, as the server has encoded them. `oauth_clients.logo_url` is the path of the current one.
create table pilotis.oauth_logos (
    app_id uuid not null,
    client_id text not null,
    image bytea not null,
    updated_at timestamptz(3) not null default now(),
    primary key (app_id, client_id),
    foreign key (app_id, client_id) references pilotis.oauth_clients on delete cascade
);
alter table pilotis.oauth_logos alter image set storage external;
