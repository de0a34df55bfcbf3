-- owner: jobs

-- How many items a process owned and did not run when it last looked, and since when: `pilotis doctor` reports them.
alter table pilotis.nodes add column strays integer not null default 0, add column strays_since timestamptz;
