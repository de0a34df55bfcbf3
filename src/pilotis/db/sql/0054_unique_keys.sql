-- owner: tables
-- Unique keys of tables: columns by number, whose values no two rows may share.
alter table pilotis.tables
    add column unique_keys jsonb not null default '[]',
    add column next_key integer not null default 1;

-- Text as it is compared where letter case does not count: compatibility characters replaced (NFKC) and lower case;
-- accents count.
create function pilotis.case_key(value text) returns text
language plpgsql immutable strict parallel safe as $$
begin
    if octet_length(value) = length(value) then
        return lower(value collate "default");
    end if;
    return lower(normalize(value, NFKC) collate "default");
end $$;
