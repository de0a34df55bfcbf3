-- owner: apps
-- How an app's members make accounts and prove who they are: only what the app has set, see `kit/account_settings.py`.
alter table pilotis.apps add column account_settings jsonb not null default '{}';
