-- owner: members
-- phase: expand

create index concurrently members_deletes_at on pilotis.members (deletes_at) where deletes_at is not null;
