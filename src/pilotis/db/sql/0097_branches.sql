-- owner: branches
-- Copies of apps for previews. A branch is an app of its own; `branches` has how it came to be, and what it began with.
create table pilotis.branches (
    app_id uuid not null references pilotis.apps on delete cascade,
    branch_id uuid not null,
    name text not null,
    contents jsonb not null,
    state text not null default 'creating',
    error text,
    -- The definitions that the branch and its parent had in common, and the ids in the parent of what was merged.
    base jsonb not null default '{}',
    ids jsonb not null default '{}',
    created_by text,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    primary key (app_id, branch_id),
    constraint branches_state check (state in ('creating', 'ready', 'failed'))
);
create unique index branches_branch on pilotis.branches (branch_id);

-- Null for an app that is no branch. No foreign key: a branch whose parent is gone is deleted by a task.
alter table pilotis.apps add column parent_app_id uuid, add column branch text, add column expires_at timestamptz(3);
create index apps_branches on pilotis.apps (parent_app_id) where parent_app_id is not null;
