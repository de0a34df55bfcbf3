-- owner: data.tables
-- Rules of tables.
alter table pilotis.tables add column rules jsonb, add column rules_updated_at timestamptz;

-- The value, where a condition holds; else an error, so that the statement undoes itself.
create function pilotis.require(holds boolean, item text) returns text
language plpgsql immutable parallel safe as $$
begin
    if holds is not true then
        raise exception 'a rule does not hold' using errcode = 'PT403';
    end if;
    return item;
end $$;
