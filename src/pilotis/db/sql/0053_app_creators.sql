-- owner: users
-- Who was invited only to look at an app creates none, until the user may change one or the operator allows it.
alter table pilotis.users add column may_create_apps boolean not null default true;
