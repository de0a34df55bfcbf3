-- owner: members
-- phase: expand

-- When a member is deleted that asked for it in an app that lets it come back until then, and what becomes of what it
-- has created. Meanwhile it is not active.
alter table pilotis.members add column deletes_at timestamptz, add column deletion_remains text;
