-- owner: oauth
-- The ids of an app's own programs at a vendor, whose ID tokens sign members in beside those for client_id.
alter table pilotis.social_providers add column client_ids text[] not null default '{}';
