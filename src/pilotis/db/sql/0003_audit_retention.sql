-- owner: audit
-- Old entries are found by their time, whatever their app.
create index audit_log_by_time on pilotis.audit_log (at);
