-- owner: data.tables
-- Checks of columns: bounds, lengths, choices and formats that values keep.
alter table pilotis.columns add column checks jsonb;

-- The value, where a changed value keeps its column's checks; else an error with what it breaks.
create function pilotis.require_value(holds boolean, broken text, item text) returns text
language plpgsql immutable parallel safe as $$
begin
    if holds is not true then
        raise exception '%', broken using errcode = 'PT422';
    end if;
    return item;
end $$;
