-- owner: oauth
-- A deactivated member keeps its sessions, for when it is activated again, but is refused everywhere: the clients that
-- got tokens in them are told as if the sessions had ended.
create function pilotis.oauth_member_deactivated() returns trigger language plpgsql as $$
begin
    insert into pilotis.jobs (app_id, job_id, queue, kind, subject, payload, run_at)
    select new.app_id, gen_random_uuid(), 'calls', 'oauth.logout', ended.client_id,
        jsonb_build_object(
            'client_id', ended.client_id, 'session_id', ended.session_id, 'member_id', new.member_id
        ), now()
    from (
        select distinct g.client_id, g.session_id
        from pilotis.sessions s
        join pilotis.oauth_grants g on g.app_id = s.app_id and g.session_id = s.session_id and g.revoked_at is null
        join pilotis.oauth_clients c on c.app_id = g.app_id and c.client_id = g.client_id
            and c.is_active and c.backchannel_logout_uri is not null
        where s.app_id = new.app_id and s.subject = new.member_id and s.revoked_at is null and s.expires_at > now()
    ) ended;
    return null;
end
$$;
create trigger oauth_member_deactivated after update of is_active on pilotis.members
    for each row when (old.is_active and not new.is_active)
    execute function pilotis.oauth_member_deactivated();
