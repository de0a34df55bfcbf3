-- owner: functions

-- The records of a function by status and by version.
create index function_executions_by_status on pilotis.function_executions (app_id, function_id, status, execution_id);
create index function_executions_by_version on pilotis.function_executions (app_id, function_id, version, execution_id);
