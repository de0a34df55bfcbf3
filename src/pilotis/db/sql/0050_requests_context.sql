-- owner: events
-- What one request has led to is found by its id: calls, executions, events and so deliveries. Work that no request led
-- to, such as that of a schedule, is traced by the id of its first call or execution.

alter table pilotis.events add column request_id text;
create index events_by_request on pilotis.events (app_id, request_id) where request_id is not null;

-- The outboxes of apps, into which statements on rows write their events.
do $$
declare
    name text;
begin
    for name in
        select format('app_%s.__events', replace(app_id::text, '-', '')) from pilotis.outboxes order by app_id
    loop
        if to_regclass(name) is not null then
            execute format('alter table %s add column if not exists request_id text', name);
        end if;
    end loop;
end
$$;

create index function_executions_by_request on pilotis.function_executions (app_id, request_id)
    where request_id is not null;

alter table pilotis.workflow_executions add column request_id text;
create index workflow_executions_by_request on pilotis.workflow_executions (app_id, request_id)
    where request_id is not null;

-- The function that a request called.
alter table pilotis.requests add column function_id uuid;
create index requests_by_request on pilotis.requests (app_id, request_id);
