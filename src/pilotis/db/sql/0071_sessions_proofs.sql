-- owner: security.sessions
-- How a member has signed in: by which methods, null for the one that `amr` names; when it did so last, null for the
-- beginning; with how many factors; and what it must do before the session counts outside of its own account.
alter table pilotis.sessions
    add column methods text[],
    add column auth_time timestamptz(3),
    add column level smallint not null default 1,
    add column awaits text[] not null default '{}';
