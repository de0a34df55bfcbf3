-- owner: security.sessions
-- Where a console user signed in from, so that it recognises its sessions. Those of members stay null.

alter table pilotis.sessions add column address text, add column user_agent text;
