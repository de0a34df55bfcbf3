-- owner: oauth
-- Whether a client finds the claims of its scopes in ID tokens too, and not at /oauth/userinfo alone.
alter table pilotis.oauth_clients add column claims_in_id_token boolean not null default false;
