-- owner: data.tables
-- References between tables of an app: a column holds the id of a row of the table that it names.
alter table pilotis.columns
    add column references_table uuid,
    add column on_delete text check (on_delete in ('restrict', 'set_null', 'cascade')),
    add constraint columns_reference check ((references_table is null) = (on_delete is null));
create index columns_references on pilotis.columns (app_id, references_table) where references_table is not null;

-- The value, where the row that a column refers to is there; else an error that names the column.
create function pilotis.require_reference(holds boolean, name text, item text) returns text
language plpgsql immutable parallel safe as $$
begin
    if holds is not true then
        raise exception '%', name using errcode = 'PT404';
    end if;
    return item;
end $$;
