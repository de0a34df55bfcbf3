-- owner: mail
-- An app's own HTML of mails; null where it is made from the paragraphs.
alter table pilotis.mail_templates add column html text;
