-- owner: data.tables
-- Values that the server makes with every change, and the steps to the normal form of a text.
alter table pilotis.columns add column on_update jsonb, add column normalize text[];

-- A moment as answers write it, to the millisecond. It is immutable, since Citus allows no other functions on columns in
-- an update.
create function pilotis.rfc3339(moment timestamptz) returns text
language plpgsql immutable strict parallel safe as $$
begin
    return to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
end $$;
