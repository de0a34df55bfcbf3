-- owner: oauth
-- The APIs outside of this server for which an app has tokens issued. A URI belongs to one app alone, compared without the
-- host's case and a trailing slash; the app's settings have it as it was written.
create table pilotis.oauth_resources (
    resource text primary key,
    app_id uuid not null references pilotis.apps on delete cascade
);
create index oauth_resources_app on pilotis.oauth_resources (app_id);
-- An app's team lists grants by member.
create index oauth_grants_member on pilotis.oauth_grants (app_id, member_id);
