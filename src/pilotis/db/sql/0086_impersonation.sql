-- owner: security.sessions
-- Who of the app's team acts as the member in a session, by the id of the console user; null for the member's own.
alter table pilotis.sessions add column impersonator text;
