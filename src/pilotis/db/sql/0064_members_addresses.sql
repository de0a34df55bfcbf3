-- owner: members
-- A member's verified e-mail address, which no two members of an app share, and the language of its mails. An address
-- that was only claimed is in `account_proofs`.
alter table pilotis.members add column email text, add column email_folded text, add column language text;
create unique index members_email on pilotis.members (app_id, email_folded) where email_folded is not null;
