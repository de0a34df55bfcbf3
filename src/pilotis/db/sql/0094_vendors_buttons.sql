-- owner: oauth
-- The ids of an app's own programs at a vendor, whose ID tokens sign members in beside those for client_id.
alter table pilotis.social_providers add column client_ids text[] not null default '{}';

-- Whether an app's server may sign its members in by a secret key; an owner says so when it creates the key.
alter table pilotis.secret_keys add column may_sign_in_members boolean not null default false;
