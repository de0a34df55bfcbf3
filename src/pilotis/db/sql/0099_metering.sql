-- owner: apps
-- What apps have used in a month, but for requests and bytes, which `request_stats` has by the hour.
create table pilotis.metered (
    app_id uuid not null references pilotis.apps on delete cascade,
    month date not null,
    executions bigint not null default 0,
    function_ms bigint not null default 0,
    mails bigint not null default 0,
    primary key (app_id, month)
);
alter table pilotis.request_stats add column bytes bigint not null default 0;
