-- owner: accounts
-- Proofs of an address that no member has yet: a sign-in by mail makes the member. Their codes are found by the ticket.
alter table pilotis.account_proofs alter column member_id drop not null;
create index account_proofs_ticket on pilotis.account_proofs (app_id, ticket_hash) where ticket_hash is not null;
