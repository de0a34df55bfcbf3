-- owner: data
-- What PostgreSQL measures about a table and about automatic indexes, whose names are 47 bytes long and unique in the
-- database. On Citus it is measured in the shards, whose names have a number appended: what the coordinator shows of a
-- distributed table is empty.
create function pilotis.table_bytes(relation regclass) returns bigint
language plpgsql volatile as $$
declare
    bytes bigint;
begin
    if to_regclass('pg_catalog.pg_dist_partition') is not null then
        execute 'select citus_table_size(logicalrelid) from pg_catalog.pg_dist_partition where logicalrelid = $1'
            into bytes using relation;
    end if;
    return coalesce(bytes, pg_table_size(relation));
end $$;

create function pilotis.index_statistics(names text[])
returns table (name text, idx_scan bigint, last_idx_scan timestamptz, size_bytes bigint)
language plpgsql volatile as $$
declare
    -- PostgreSQL 15 has no last_idx_scan.
    measured constant text := 'idx_scan, (to_jsonb(s) ->> ''last_idx_scan'')::timestamptz as last_idx_scan,
        pg_relation_size(indexrelid) as size_bytes from pg_catalog.pg_stat_user_indexes s where ';
begin
    if to_regclass('pg_catalog.pg_dist_partition') is null then
        return query execute 'select indexrelname::text, ' || measured || 'indexrelname = any($1)' using names;
    elsif names is not null then
        return query execute '
            select n.name, sum(n.idx_scan)::bigint, max(n.last_idx_scan), sum(n.size_bytes)::bigint
            from run_command_on_all_nodes($1) r, json_to_recordset(r.result::json)
                n (name text, idx_scan bigint, last_idx_scan timestamptz, size_bytes bigint)
            where r.success group by n.name'
        using format(
            'select coalesce(json_agg(n), ''[]'') from (select left(indexrelname, 47) as name, %s) n',
            measured || format('left(indexrelname, 47) = any(%L::text[])', names));
    end if;
end $$;
