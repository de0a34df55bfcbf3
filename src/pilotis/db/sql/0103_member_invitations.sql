-- owner: accounts
-- phase: expand

-- Invitations to become a member of an app, mailed to an address. One that was neither accepted nor revoked is replaced
-- by the next for its address.
create table pilotis.member_invitations (
    app_id uuid not null references pilotis.apps on delete cascade,
    invitation_id uuid not null,
    token_hash bytea not null,
    email text not null,
    email_folded text not null,
    -- What who accepts gets: roles in the app and, if there is a team, those in the team.
    roles text[] not null,
    team_id uuid,
    team_roles text[] not null,
    language text,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    accepted_at timestamptz(3),
    revoked_at timestamptz(3),
    primary key (app_id, invitation_id),
    constraint member_invitations_token unique (app_id, token_hash),
    foreign key (app_id, team_id) references pilotis.teams on delete set null (team_id)
);
create unique index member_invitations_email on pilotis.member_invitations (app_id, email_folded)
    where accepted_at is null and revoked_at is null;
create index member_invitations_team on pilotis.member_invitations (app_id, team_id) where team_id is not null;
create index member_invitations_expiry on pilotis.member_invitations (expires_at);
