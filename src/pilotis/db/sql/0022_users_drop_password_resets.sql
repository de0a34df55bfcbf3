-- owner: users
-- `pilotis.single_use` has replaced this table since migration 10, and no code reads it any more.
drop table pilotis.password_resets;
