-- owner: jobs
-- Where each process listens, so that no outgoing request of another one is led there. `address` is the one by which
-- PostgreSQL sees the process, null for one on its own machine that came by a Unix socket.
alter table pilotis.nodes add column address inet, add column ports integer[] not null default '{}';
