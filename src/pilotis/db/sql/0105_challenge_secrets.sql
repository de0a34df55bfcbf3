-- owner: apps
-- phase: expand

-- What proves an app to the vendor of its challenges, encrypted under the app's data key; the app's account settings say
-- which vendor it is.
create table pilotis.challenge_secrets (
    app_id uuid primary key references pilotis.apps on delete cascade,
    secret bytea not null
);
