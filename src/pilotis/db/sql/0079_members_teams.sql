-- owner: members
-- The teams of a member with its roles in each, as texts `id:role,role`, written by the feature of teams: the lookup of a
-- session has them without a join.
alter table pilotis.members add column teams text[] not null default '{}';
