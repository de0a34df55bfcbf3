-- owner: oauth
-- Social login: the vendors that an app's members may sign in with, and which account at a vendor is which member. An
-- identity is known by the vendor's subject alone; its address is a fact about it, never a key to an account.
create table pilotis.social_providers (
    app_id uuid not null references pilotis.apps on delete cascade,
    provider text not null,
    client_id text not null,
    client_secret bytea,
    scopes text[] not null default '{}',
    is_enabled boolean not null default true,
    options jsonb not null default '{}',
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    primary key (app_id, provider)
);
create table pilotis.member_identities (
    app_id uuid not null,
    provider text not null,
    subject text not null,
    member_id text not null,
    email text,
    email_verified boolean not null default false,
    picture text,
    created_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3) not null default now(),
    primary key (app_id, provider, subject),
    foreign key (app_id, member_id) references pilotis.members on delete cascade
);
create index member_identities_member on pilotis.member_identities (app_id, member_id);
create index member_identities_email on pilotis.member_identities (app_id, email) where email_verified;
-- How a session began (`amr` of an ID token): by a password, or at a vendor.
alter table pilotis.sessions add amr text not null default 'pwd';
-- Until now the list was whatever an owner wrote, and nothing followed from it.
update pilotis.apps set enabled_oauth_providers = '{}' where enabled_oauth_providers <> '{}';
