-- owner: oauth
-- Used proofs are remembered for minutes alone, so that no request waits for them to be on disk. A crash of PostgreSQL
-- empties both tables, and nobody knows any longer which proofs were used: a new epoch then begins, in which the nonces
-- of the one before are void. The first epoch has no beginning.
alter table pilotis.oauth_used_proofs set unlogged;
create unlogged table pilotis.oauth_proof_epochs (
    is_current boolean primary key check (is_current),
    began_at timestamptz not null
);
insert into pilotis.oauth_proof_epochs values (true, 'epoch');
