-- owner: events

-- The data of an event that was delivered everywhere goes after a day; then it is the JSON null.
alter table pilotis.events add column has_payload boolean not null default true;
create index events_payloads on pilotis.events (created_at, event_id) where dispatched_at is not null and has_payload;

-- What could not be dispatched is found without looking at the rest.
create index events_given_up on pilotis.events (created_at) where dispatched_at is null and tries >= 3;

-- Vacuum what retention deletes in small pieces: by default a fifth of the table is dead before it begins.
alter table pilotis.events set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000);
