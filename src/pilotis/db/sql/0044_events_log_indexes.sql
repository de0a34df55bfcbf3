-- owner: events

-- The log of one type of event.
create index events_by_type on pilotis.events (app_id, type, event_id);
