-- owner: hosting
-- phase: expand

-- The branch of the app whose key a preview has.
alter table pilotis.web_deployments add column branch text;
