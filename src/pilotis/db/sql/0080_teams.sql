-- owner: teams
-- Teams of members, with roles in each, and open invitations.
create table pilotis.team_settings (
    app_id uuid primary key references pilotis.apps on delete cascade,
    members_create boolean not null
);
create table pilotis.teams (
    app_id uuid not null references pilotis.apps on delete cascade,
    team_id uuid not null,
    name text not null,
    slug text,
    data jsonb not null default '{}',
    created_by text,
    created_at timestamptz(3) not null default now(),
    primary key (app_id, team_id),
    constraint team_slug_unique unique (app_id, slug)
);
create table pilotis.team_members (
    app_id uuid not null,
    team_id uuid not null,
    member_id text not null,
    roles text[] not null,
    joined_at timestamptz(3) not null default now(),
    primary key (app_id, team_id, member_id),
    foreign key (app_id, team_id) references pilotis.teams on delete cascade,
    foreign key (app_id, member_id) references pilotis.members on delete cascade
);
create index team_members_member on pilotis.team_members (app_id, member_id);
create table pilotis.team_invitations (
    app_id uuid not null,
    team_invitation_id uuid not null,
    team_id uuid not null,
    token_hash bytea not null,
    -- Null for a link, which any member may use.
    email text,
    email_folded text,
    roles text[] not null,
    max_uses integer not null,
    uses integer not null default 0,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    primary key (app_id, team_invitation_id),
    constraint team_invitations_token unique (app_id, token_hash),
    foreign key (app_id, team_id) references pilotis.teams on delete cascade
);
create index team_invitations_team on pilotis.team_invitations (app_id, team_id);
create index team_invitations_expiry on pilotis.team_invitations (expires_at);
