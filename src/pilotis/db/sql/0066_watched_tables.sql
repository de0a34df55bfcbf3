-- owner: data.tables
-- Whether the statements on a table's rows write its changes into the app's log, which live subscriptions read.
alter table pilotis.tables add column watched boolean not null default false;

-- The transaction that writes a row. It takes a column, and is called immutable, so that Citus calls it where the row is:
-- on the coordinator a transaction has another number.
create function pilotis.log_xid(row_id text) returns xid8
language plpgsql immutable parallel safe as $$
begin
    return pg_current_xact_id();
end $$;

-- A row as it was, for the log. Of a large one what is larger than a condition compares is left out, with its names.
create function pilotis.logged_row(whole jsonb) returns jsonb
language plpgsql immutable parallel safe as $$
declare
    kept jsonb;
begin
    if octet_length(whole::text) <= 65536 then
        return whole;
    end if;
    select jsonb_object_agg(key, value) into kept from jsonb_each(whole) where octet_length(value::text) <= 1024;
    return kept || jsonb_build_object('__left_out', (
        select jsonb_agg(key) from jsonb_each(whole) where octet_length(value::text) > 1024
    ));
end $$;
