-- owner: oauth
-- The hourly deletion of what was revoked a day ago reads these rows alone.
create index oauth_grants_revoked on pilotis.oauth_grants (revoked_at) where revoked_at is not null;
