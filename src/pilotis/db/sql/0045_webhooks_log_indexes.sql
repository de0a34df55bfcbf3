-- owner: webhooks

-- The log of a webhook by state and by type of event.
create index deliveries_by_state on pilotis.deliveries (app_id, target_id, state, delivery_id);
create index deliveries_by_type on pilotis.deliveries (app_id, target_id, event_type, delivery_id);
