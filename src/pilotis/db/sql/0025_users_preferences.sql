-- owner: users
-- What the console remembers for a user: an object that only its pages read.

alter table pilotis.users add column preferences text not null default '{}';
