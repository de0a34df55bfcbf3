-- owner: oauth
-- Whatever ends a session tells the clients that got tokens in it (OpenID Connect Back-Channel Logout 1.0): one job for
-- each, in the transaction in which the session ends. A trigger, because sessions end in many ways: sign-out, a copied
-- refresh token, another password, a deactivated or deleted member. It runs with that one change alone, so sign-ins and
-- refreshes do not notice it.
create function pilotis.oauth_session_ended() returns trigger language plpgsql as $$
begin
    insert into pilotis.jobs (app_id, job_id, queue, kind, subject, payload, run_at)
    select new.app_id, gen_random_uuid(), 'calls', 'oauth.logout', ended.client_id,
        jsonb_build_object('client_id', ended.client_id, 'session_id', new.session_id, 'member_id', new.subject), now()
    from (
        select distinct g.client_id from pilotis.oauth_grants g
        join pilotis.oauth_clients c on c.app_id = g.app_id and c.client_id = g.client_id
            and c.is_active and c.backchannel_logout_uri is not null
        where g.app_id = new.app_id and g.session_id = new.session_id
    ) ended;
    return null;
end
$$;
create trigger oauth_session_ended after update of revoked_at on pilotis.sessions
    for each row when (old.revoked_at is null and new.revoked_at is not null)
    execute function pilotis.oauth_session_ended();
