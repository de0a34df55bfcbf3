-- owner: webhooks

-- Succeeded deliveries are kept for a shorter time than others: the old ones of each are found without those of the other.
create index deliveries_succeeded_by_age on pilotis.deliveries (finished_at) where state = 'succeeded';
create index deliveries_others_by_age on pilotis.deliveries (finished_at) where state in ('failed', 'cancelled');
drop index pilotis.deliveries_by_age;

alter table pilotis.deliveries set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000);
alter table pilotis.delivery_attempts set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000);
