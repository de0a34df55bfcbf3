-- owner: security
-- When a token of the newest pair of a session was used for the first time: until then, a client may have lost the pair,
-- and the refresh token before it remains valid.
alter table pilotis.sessions add column successor_used_at timestamptz;
