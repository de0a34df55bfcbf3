-- owner: functions
-- The scope of an OAuth access token with which other programs may call a function; null: they may not.
alter table pilotis.functions add oauth_scope text;
