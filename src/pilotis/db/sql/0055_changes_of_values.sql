-- owner: data.tables
-- The operators of changes that depend on the value there is. They are immutable, since Citus allows no other functions
-- on columns in an update.

-- The array with more elements; those of $addToSet only where no equal one is in it.
create function pilotis.add_elements(stored jsonb, operator text, given jsonb) returns jsonb
language plpgsql immutable parallel safe as $$
begin
    if operator = '$push' then
        return stored || given;
    end if;
    return stored || (
        select coalesce(jsonb_agg(value order by place), '[]')
        from (
            select g.value, min(g.place) as place
            from jsonb_array_elements(given) with ordinality as g (value, place)
            where not exists (select from jsonb_array_elements(stored) as s (value) where s.value = g.value)
            group by g.value
        ) missing
    );
end $$;

-- The array without the elements that are equal to a given one.
create function pilotis.without_elements(stored jsonb, given jsonb) returns jsonb
language plpgsql immutable parallel safe as $$
begin
    return (
        select coalesce(jsonb_agg(s.value order by s.place), '[]')
        from jsonb_array_elements(stored) with ordinality as s (value, place)
        where not exists (select from jsonb_array_elements(given) as g (value) where g.value = s.value)
    );
end $$;

-- A field without a column, after an operator on it. Raises PT400 if its value is of another type.
create function pilotis.change_field(stored jsonb, operator text, given jsonb) returns jsonb
language plpgsql immutable parallel safe as $$
begin
    if jsonb_typeof(stored) is distinct from jsonb_typeof(given) then
        raise exception 'the operator does not work on this value' using errcode = 'PT400';
    end if;
    return case operator
        when '$min' then case when given < stored then given else stored end
        when '$max' then case when given > stored then given else stored end
        when '$pull' then pilotis.without_elements(stored, given)
        else pilotis.add_elements(stored, operator, given)
    end;
end $$;
