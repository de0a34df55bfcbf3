-- owner: data.tables
-- References to unique keys: the key's name, and the number of its column. References to members: what their deletion
-- does.
alter table pilotis.columns
    add column references_key text,
    add column references_column integer,
    add column of_member text check (of_member in ('keep', 'set_null', 'cascade')),
    add constraint columns_key check ((references_key is null) = (references_column is null));
create index columns_of_members on pilotis.columns (app_id) where of_member is not null;

-- The unique key of the table whose rows are the profiles of the app's members, by the member's id.
alter table pilotis.tables add column profile_key text;
create unique index tables_of_profiles on pilotis.tables (app_id) where profile_key is not null;
