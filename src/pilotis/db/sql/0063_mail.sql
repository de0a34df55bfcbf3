-- owner: mail
-- Mail: an app's own SMTP server, what was sent or is stored for the console, and addresses that take no mail.

create table pilotis.mail_settings (
    app_id uuid primary key references pilotis.apps on delete cascade,
    -- Without the password, which is under the app's data key.
    smtp_url text not null,
    password bytea,
    mail_from text not null,
    mail_reply_to text,
    updated_at timestamptz(3) not null default now()
);

create table pilotis.mail_messages (
    app_id uuid not null references pilotis.apps on delete cascade,
    mail_id uuid not null,
    purpose text not null,
    recipient text not null,
    member_id text,
    language text not null,
    subject text not null,
    state text not null,
    attempts integer not null default 0,
    reply text,
    -- Text, link and code under the app's data key; null once it is sent.
    body bytea,
    created_at timestamptz(3) not null default now(),
    sent_at timestamptz(3),
    -- When the link or the code expires: later it is not sent.
    expires_at timestamptz(3),
    primary key (app_id, mail_id)
);
create index mail_messages_creation on pilotis.mail_messages (app_id, created_at desc, mail_id desc);
create index mail_messages_age on pilotis.mail_messages (created_at);

create table pilotis.mail_suppressions (
    app_id uuid not null references pilotis.apps on delete cascade,
    -- The address itself is not stored.
    address_hash text not null,
    reason text not null,
    created_at timestamptz(3) not null default now(),
    primary key (app_id, address_hash)
);
