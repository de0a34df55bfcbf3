-- owner: members
-- Whether a mail has proved who set the member's password last: then another mail is no second factor beside it.
alter table pilotis.members add column password_by_mail boolean not null default false;
