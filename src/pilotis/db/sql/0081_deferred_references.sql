-- owner: data.rows
-- Lets the transaction check foreign keys of a table at its end. This runs where the rows are: Citus tells no other node
-- of `set constraints`, and there the number of a shard follows the name.
create function pilotis.defer(table_id oid, names text[]) returns void
language plpgsql as $$
declare
    one record;
begin
    for one in
        select connamespace::regnamespace as schema_name, conname from pg_constraint, unnest(names) as given (name)
        where conrelid = table_id and contype = 'f' and (conname = name or starts_with(conname, name || '_'))
    loop
        execute format('set constraints %s.%I deferred', one.schema_name, one.conname);
    end loop;
end $$;
