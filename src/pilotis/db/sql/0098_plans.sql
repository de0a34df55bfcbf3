-- owner: plans
-- Named sets of limits and monthly quotas; limits and quotas are JSON objects.
create table pilotis.plans (
    name text primary key,
    limits jsonb not null,
    quotas jsonb not null,
    updated_at timestamptz(3) not null default now()
);

-- The shares of quotas, in percent, of which the owners of an app were told in a month.
create table pilotis.quota_notices (
    app_id uuid not null references pilotis.apps on delete cascade,
    month date not null,
    quota text not null,
    percent integer not null,
    at timestamptz(3) not null default now(),
    primary key (app_id, month, quota, percent)
);

-- `plan_limits` are those of the plan, `exceeded` says which quota the app has used up, and until when. A branch has
-- what its parent has.
alter table pilotis.apps
    add column plan text, add column plan_limits jsonb not null default '{}', add column exceeded jsonb;
create index apps_plan on pilotis.apps (plan) where plan is not null;
