-- owner: archive
-- Archives that owners of apps asked for. Their bytes are blobs of the app: blobs/<app_id>/<archive_id>.
create table pilotis.app_archives (
    app_id uuid not null references pilotis.apps on delete cascade,
    archive_id uuid not null,
    state text not null default 'pending' check (state in ('pending', 'completed', 'failed')),
    created_at timestamptz(3) not null default now(),
    ended_at timestamptz(3),
    -- Under the app's data key, until the archive is written.
    passphrase bytea,
    has_passphrase boolean not null,
    with_secrets boolean not null,
    bytes bigint,
    tables bigint,
    rows bigint,
    blobs bigint,
    missing_blobs bigint,
    error text,
    primary key (app_id, archive_id)
);
create unique index app_archives_pending on pilotis.app_archives (app_id) where state = 'pending';

-- Archives that console users uploaded, each to become an app. A process that imports one says so every few seconds.
create table pilotis.app_imports (
    import_id uuid primary key,
    user_id uuid not null references pilotis.users on delete cascade,
    state text not null default 'running' check (state in ('running', 'completed', 'failed')),
    created_at timestamptz(3) not null default now(),
    seen_at timestamptz(3) not null default now(),
    bytes bigint not null,
    made_app_id uuid,
    name text,
    tables bigint,
    rows bigint,
    blobs bigint,
    missing_blobs bigint,
    left_out text[],
    code text,
    error text
);
create index app_imports_user on pilotis.app_imports (user_id);
create index app_imports_age on pilotis.app_imports (created_at);
