-- owner: functions
-- When a failed call of the function was last told as an event: one a minute, whatever the number of processes.

alter table pilotis.functions add column failure_event_at timestamptz;

-- Each app may keep its records for a shorter time.
create index function_executions_by_app_age on pilotis.function_executions (app_id, finished_at);
drop index pilotis.function_executions_by_age;
