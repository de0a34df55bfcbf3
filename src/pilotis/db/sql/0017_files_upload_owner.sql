-- owner: files
-- The process that is receiving an upload. No index: it is read only when a process has died or stops.

alter table pilotis.uploads add column owner uuid;
