-- Rules of tables, and what the app says of its members, which rules ask for.
alter table pilotis.tables add column rules jsonb, add column rules_updated_at timestamptz;
alter table pilotis.members
    add column roles text[] not null default '{}',
    add column claims jsonb not null default '{}';

-- The value, where a condition holds; else an error, so that the statement undoes itself.
create function pilotis.require(holds boolean, item text) returns text
language plpgsql immutable parallel safe as $$
begin
    if holds is not true then
        raise exception 'a rule does not hold' using errcode = 'PT403';
    end if;
    return item;
end $$;
