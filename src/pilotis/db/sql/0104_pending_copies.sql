-- owner: files
-- phase: expand

-- Blobs that the database names since their transaction was committed, and that the backup store does not have yet. The
-- embedded server sets pilotis.copies_files where there is such a store; elsewhere the table stays empty.
create table pilotis.pending_copies (
    app_id uuid not null,
    key text not null,
    size bigint not null,
    queued_at timestamptz not null default now(),
    primary key (app_id, key)
);

create function pilotis.queue_copy() returns trigger language plpgsql as $$
begin
    insert into pilotis.pending_copies (app_id, key, size)
    values (new.app_id, 'blobs/' || new.app_id || '/' || new.blob_id, new.size)
    on conflict do nothing;
    return null;
end $$;

create function pilotis.queue_web_copies() returns trigger language plpgsql as $$
begin
    insert into pilotis.pending_copies (app_id, key, size)
    select new.app_id, 'blobs/' || new.app_id || '/' || form.id, form.size
    from (values
        (new.blob_id, new.size, tg_op = 'INSERT'),
        (new.brotli_id, new.brotli_size, true),
        (new.gzip_id, new.gzip_size, true)
    ) form (id, size, is_new)
    where form.id is not null and form.is_new
    on conflict do nothing;
    return null;
end $$;

create trigger queue_inserted after insert on pilotis.files for each row
    when (new.blob_id is not null and current_setting('pilotis.copies_files', true) = 'on')
    execute function pilotis.queue_copy();
create trigger queue_replaced after update of blob_id on pilotis.files for each row
    when (
        new.blob_id is not null and old.blob_id is distinct from new.blob_id
        and current_setting('pilotis.copies_files', true) = 'on'
    )
    execute function pilotis.queue_copy();
create trigger queue_inserted after insert on pilotis.variants for each row
    when (current_setting('pilotis.copies_files', true) = 'on')
    execute function pilotis.queue_copy();
create trigger queue_inserted after insert or update of brotli_id, gzip_id on pilotis.web_blobs for each row
    when (current_setting('pilotis.copies_files', true) = 'on')
    execute function pilotis.queue_web_copies();
