-- owner: mail
-- An app's own texts of mails; without a row the shipped one of the language is used.
create table pilotis.mail_templates (
    app_id uuid not null references pilotis.apps on delete cascade,
    purpose text not null,
    language text not null,
    subject text not null,
    text text not null,
    button text not null,
    updated_at timestamptz(3) not null default now(),
    primary key (app_id, purpose, language)
);
