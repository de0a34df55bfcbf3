-- owner: data.transfer
-- Imports that change rows by a unique key: how many they have changed, and how many were there and left as they are.
alter table pilotis.imports add column updated bigint not null default 0, add column ignored bigint not null default 0;
