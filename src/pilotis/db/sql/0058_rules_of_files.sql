-- owner: files
-- Rules of storages, in place of their access settings. While a storage has rules its settings say 'Rules', so that no
-- statement that asks for one of them lets anybody pass, and `levels` keeps what they were.
alter table pilotis.file_storages
    add column list_access text check (list_access in ('Public', 'AppMember', 'Creator', 'Secret')),
    add column rules jsonb,
    add column rules_updated_at timestamptz(3),
    add column levels jsonb,
    drop constraint file_storages_upload_access_check,
    drop constraint file_storages_delete_access_check,
    drop constraint file_storages_read_access_check,
    add check (upload_access in ('Public', 'AppMember', 'Creator', 'Secret', 'Rules')),
    add check (delete_access in ('Public', 'AppMember', 'Creator', 'Secret', 'Rules')),
    add check (read_access in ('Public', 'AppMember', 'Creator', 'Secret', 'Rules')),
    add check ((rules is null) = (levels is null)),
    add check ((rules is not null) = (upload_access = 'Rules')),
    add check (upload_access = 'Rules' or 'Rules' not in (delete_access, read_access));
