-- owner: data.tables
-- A field without a column, after an operator on it; $merge is one, too. Raises PT400 if its value is of another type.
create or replace function pilotis.change_field(stored jsonb, operator text, given jsonb) returns jsonb
language plpgsql immutable parallel safe as $$
begin
    if jsonb_typeof(stored) is distinct from jsonb_typeof(given) then
        raise exception 'the operator does not work on this value' using errcode = 'PT400';
    end if;
    return case operator
        when '$min' then case when given < stored then given else stored end
        when '$max' then case when given > stored then given else stored end
        when '$pull' then pilotis.without_elements(stored, given)
        when '$merge' then pilotis.merge_patch(stored, given)
        else pilotis.add_elements(stored, operator, given)
    end;
end $$;
