-- owner: members
-- The kinds of second factors that a member has set up, so that a sign-in sees them with the password; and until when
-- it is banned.
alter table pilotis.members
    add column factors text[] not null default '{}',
    add column banned_until timestamptz(3),
    add column ban_reason text;
