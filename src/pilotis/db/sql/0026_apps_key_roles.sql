-- owner: apps
-- A secret key acts with its own role or that of its user, whichever is lower.

alter table pilotis.secret_keys add column role text not null default 'editor' check (role in ('viewer', 'editor'));
