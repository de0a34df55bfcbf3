-- owner: files
-- How often the deletion of a blob was tried: from the first attempt on nobody may refer to the blob again, and each
-- attempt makes the pause before the next one longer.
alter table pilotis.dead_blobs add column attempts integer not null default 0;
