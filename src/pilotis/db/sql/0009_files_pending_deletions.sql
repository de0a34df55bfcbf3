-- owner: files
-- Blobs wait in pending_deletions until they are deleted. Nodes of the version before go on using the old name, through
-- a view that PostgreSQL lets them insert into, update, lock and delete from. A later version drops it.
alter table pilotis.dead_blobs rename to pending_deletions;
alter table pilotis.pending_deletions rename constraint dead_blobs_pkey to pending_deletions_pkey;
alter index pilotis.dead_blobs_by_due_time rename to pending_deletions_by_due_time;
create view pilotis.dead_blobs as select app_id, key, due_at, attempts from pilotis.pending_deletions;

alter function pilotis.bury_blobs_of_files() rename to mark_blobs_of_files;
alter function pilotis.bury_replaced_blob() rename to mark_replaced_blob;
alter function pilotis.bury_blobs_of_uploads() rename to mark_blobs_of_uploads;
alter trigger bury_deleted on pilotis.files rename to mark_deleted;
alter trigger bury_replaced on pilotis.files rename to mark_replaced;
alter trigger bury_deleted on pilotis.uploads rename to mark_deleted;
alter trigger bury_replaced on pilotis.uploads rename to mark_replaced;
alter trigger bury_deleted on pilotis.variants rename to mark_deleted;

create or replace function pilotis.mark_blobs_of_files() returns trigger language plpgsql as $$
begin
    insert into pilotis.pending_deletions (app_id, key, due_at)
    select g.app_id, 'blobs/' || g.app_id || '/' || g.blob_id, now() + interval '10 minutes'
    from gone g
    where g.blob_id is not null
    on conflict do nothing;
    return null;
end $$;

create or replace function pilotis.mark_replaced_blob() returns trigger language plpgsql as $$
begin
    insert into pilotis.pending_deletions (app_id, key, due_at)
    values (old.app_id, 'blobs/' || old.app_id || '/' || old.blob_id, now() + interval '10 minutes')
    on conflict do nothing;
    return null;
end $$;

create or replace function pilotis.mark_blobs_of_uploads() returns trigger language plpgsql as $$
begin
    insert into pilotis.pending_deletions (app_id, key, due_at)
    select g.app_id, 'blobs/' || g.app_id || '/' || g.blob_id, now() + interval '10 minutes'
    from gone g where g.blob_id is not null and g.state <> 'completed'
    union all
    select g.app_id, 'staging/' || g.app_id || '/' || g.upload_id, greatest(now(), g.expires_at)
    from gone g where g.is_direct
    union all
    select g.app_id, 'drafts/' || g.app_id || '/' || g.upload_id, now() + interval '10 minutes'
    from gone g where g.draft is not null
    on conflict do nothing;
    return null;
end $$;
