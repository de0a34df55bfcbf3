-- The service's own tables. Every key leads with app_id, so that they can be distributed by it.
-- Each app's rows live apart, in a schema of the app's own (see pilotis.tables.ddl).

create schema pilotis;

create table pilotis.migrations (
    number integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz(3) not null default now()
);

-- Facts about this installation, such as the first-run link.
create table pilotis.installation (
    key text primary key,
    value jsonb not null,
    updated_at timestamptz(3) not null default now()
);

create table pilotis.apps (
    app_id uuid primary key,
    name text not null,
    version bigint not null default 1,
    schema_locked boolean not null default false,
    allow_id_password_login boolean not null default true,
    allow_guest_login boolean not null default true,
    enabled_oauth_providers text[] not null default '{}',
    limits jsonb not null default '{}',
    encryption_key bytea,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    deleted_at timestamptz(3)
);

create table pilotis.public_keys (
    app_id uuid not null references pilotis.apps on delete cascade,
    key_id uuid not null,
    key text not null,
    name text not null default '',
    allowed_origins text[] not null default '{}',
    created_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3),
    revoked_at timestamptz(3),
    primary key (app_id, key_id),
    unique (app_id, key)
);

create table pilotis.users (
    user_id uuid primary key,
    email text not null unique,
    password_hash text not null,
    is_active boolean not null default true,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
);

create table pilotis.app_users (
    app_id uuid not null references pilotis.apps on delete cascade,
    user_id uuid not null references pilotis.users on delete cascade,
    role text not null check (role in ('owner', 'editor', 'viewer')),
    created_at timestamptz(3) not null default now(),
    primary key (app_id, user_id)
);
create index app_users_by_user on pilotis.app_users (user_id);

create table pilotis.invitations (
    app_id uuid not null references pilotis.apps on delete cascade,
    invitation_id uuid not null,
    email text not null,
    role text not null check (role in ('owner', 'editor', 'viewer')),
    token_hash bytea not null unique,
    invited_by uuid references pilotis.users on delete set null,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    accepted_at timestamptz(3),
    primary key (app_id, invitation_id)
);
create unique index open_invitation_unique on pilotis.invitations (app_id, email) where accepted_at is null;

-- user_id is null for a key made on the command line: it acts for whoever runs the server.
create table pilotis.secret_keys (
    app_id uuid not null references pilotis.apps on delete cascade,
    key_id uuid not null,
    user_id uuid references pilotis.users on delete cascade,
    name text not null default '',
    prefix text not null,
    key_hash bytea not null,
    created_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3),
    revoked_at timestamptz(3),
    primary key (app_id, key_id),
    unique (app_id, key_hash)
);

create table pilotis.members (
    app_id uuid not null references pilotis.apps on delete cascade,
    member_id text not null,
    login_id text,
    password_hash text,
    nickname text,
    is_guest boolean not null,
    is_active boolean not null default true,
    custom_data jsonb not null default '{}',
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    last_active_at timestamptz(3) not null default now(),
    primary key (app_id, member_id),
    constraint login_id_unique unique (app_id, login_id)
);
create index members_by_activity on pilotis.members (app_id, last_active_at);
create index members_by_creation on pilotis.members (app_id, created_at desc, member_id desc);

-- One row a sign-in, and so a family of refresh tokens. app_id is the nil UUID for console users.
create table pilotis.sessions (
    app_id uuid not null,
    session_id uuid not null,
    subject text not null,
    refresh_id uuid not null,
    previous_refresh_id uuid,
    refreshed_at timestamptz(3) not null,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    revoked_at timestamptz(3),
    primary key (app_id, session_id)
);
create index sessions_by_subject on pilotis.sessions (app_id, subject);
create index sessions_by_expiry on pilotis.sessions (expires_at);

create table pilotis.tables (
    app_id uuid not null references pilotis.apps on delete cascade,
    table_id uuid not null,
    title text not null,
    access_level text not null check (access_level in ('Creator', 'Public', 'AppMember')),
    version integer not null default 1,
    next_column integer not null default 1,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    dropped_at timestamptz(3),
    primary key (app_id, table_id)
);
create unique index table_title_unique on pilotis.tables (app_id, title) where dropped_at is null;

-- number names what belongs to a column but cannot be named after it (its time, its place in the trash).
create table pilotis.columns (
    app_id uuid not null,
    table_id uuid not null,
    number integer not null,
    name text not null,
    type text not null,
    required boolean,
    default_value jsonb,
    description text,
    encrypted boolean,
    rewriting boolean not null default false,
    dropped_at timestamptz(3),
    primary key (app_id, table_id, number),
    foreign key (app_id, table_id) references pilotis.tables on delete cascade
);
create unique index column_name_unique on pilotis.columns (app_id, table_id, name) where dropped_at is null;

-- How far an import has come, written in the transaction that writes its rows. position is the offset in the file
-- after the last line that is done, rejected_position the length of what was written about rejected ones.
create table pilotis.imports (
    app_id uuid not null,
    table_id uuid not null,
    key text not null,
    format text not null,
    header text[],
    position bigint not null default 0,
    line bigint not null default 0,
    created bigint not null default 0,
    rejected bigint not null default 0,
    rejected_position bigint not null default 0,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    finished_at timestamptz(3),
    primary key (app_id, table_id, key),
    foreign key (app_id, table_id) references pilotis.tables on delete cascade
);
create index imports_by_age on pilotis.imports (updated_at);

create table pilotis.audit_log (
    app_id uuid not null,
    entry_id uuid not null,
    at timestamptz(3) not null default now(),
    actor_kind text not null,
    actor_id text,
    action text not null,
    target text,
    details jsonb not null default '{}',
    request_id text,
    primary key (app_id, entry_id)
);

-- client_errors are answers of 400 to 499, errors those of 500 and above.
create table pilotis.request_stats (
    app_id uuid not null references pilotis.apps on delete cascade,
    hour timestamptz(0) not null,
    requests bigint not null,
    client_errors bigint not null,
    errors bigint not null,
    primary key (app_id, hour)
) with (fillfactor = 70);
create index request_stats_by_hour on pilotis.request_stats (hour);

-- Losing these in a crash forgives a few attempts; logging them would double the price of each.
create unlogged table pilotis.rate_limits (
    key text primary key,
    hits integer not null,
    strikes integer not null default 0,
    resets_at timestamptz not null
);

-- What a cast tries: the moment an RFC 3339 text names, or null; the JSON a text holds, or null.
-- It takes and yields what pilotis.kit.clock.parse_rfc3339 does; PostgreSQL's own reading is wider in some ways and
-- narrower in others (24:00, fractions it rounds, offsets past 16 hours).
-- Neither it nor try_json may run in parallel plans: before version 17 an exception cannot be caught there.
create function pilotis.try_time(value text) returns timestamptz
language plpgsql immutable strict parallel unsafe set timezone = 'UTC' as $$
declare
    parts text[] := regexp_match(value, '^([0-9]{4}-[0-9]{2}-[0-9]{2})'
        '(?:[Tt ]((?:[01][0-9]|2[0-3]):[0-9]{2}:)([0-9]{2})(?:(\.[0-9]{1,6})[0-9]{0,3})?'
        '(?:[Zz]|([+-](?:[01][0-9]|2[0-3]):[0-5][0-9])))?$');
    moment timestamp;
begin
    moment := parts[1] || coalesce(' ' || parts[2] || parts[3], '');
    if parts[3] < '60' then
        moment := moment + coalesce('0' || parts[4], '0')::interval;
    end if;
    moment := moment - coalesce(parts[5], '0')::interval;
    return case when moment between '0001-01-01' and '9999-12-31T23:59:59.999999' then moment at time zone 'UTC' end;
exception when others then
    return null;
end $$;

create function pilotis.try_json(value text) returns jsonb
language plpgsql immutable strict parallel unsafe as $$
declare
    json jsonb;
begin
    json := value::jsonb;
    -- 1e100000 is JSON too, and comes out as a hundred thousand digits.
    return case when octet_length(json::text) <= 2 * octet_length(value) + 1000 then json end;
exception when others then
    return null;
end $$;

-- MongoDB's comparison order of types: null and missing, numbers, strings, objects, arrays, booleans.
create function pilotis.bson_rank(value jsonb) returns integer
language sql immutable parallel safe as $$
    select case coalesce(jsonb_typeof(value), 'null')
        when 'null' then 1 when 'number' then 2 when 'string' then 3
        when 'object' then 4 when 'array' then 5 else 6 end
$$;

create function pilotis.bson_compare(a jsonb, b jsonb) returns integer
language sql immutable parallel safe as $$
    select case
        when pilotis.bson_rank(a) <> pilotis.bson_rank(b) then sign(pilotis.bson_rank(a) - pilotis.bson_rank(b))::integer
        when a = b then 0
        when jsonb_typeof(a) = 'string' then case when (a #>> '{}') collate "C" < (b #>> '{}') then -1 else 1 end
        when a < b then -1
        else 1 end
$$;

-- What a write makes of a row that has grown too large: an error, so that the write undoes itself.
create function pilotis.require_size(item text, most integer) returns text
language plpgsql immutable strict parallel safe as $$
begin
    if octet_length(item) > most then
        raise exception 'row too large' using errcode = 'PT413';
    end if;
    return item;
end $$;

create function pilotis.require_size(item jsonb, most integer) returns jsonb
language plpgsql immutable strict parallel safe as $$
begin
    if pg_column_size(item) > most then
        raise exception 'value too large' using errcode = 'PT413';
    end if;
    return item;
end $$;

-- The same error for what would grow too large. Volatile, or the planner would raise it beforehand.
create function pilotis.refuse_size() returns text
language plpgsql volatile parallel safe as $$
begin
    raise exception 'value too large' using errcode = 'PT413';
end $$;

-- JSON Merge Patch (RFC 7396): objects are merged at every depth, null deletes a key, anything else is replaced.
create function pilotis.merge_patch(target jsonb, patch jsonb) returns jsonb
language plpgsql immutable parallel safe as $$
begin
    if jsonb_typeof(patch) <> 'object' then
        return patch;
    end if;
    if target is null or jsonb_typeof(target) <> 'object' then
        target := '{}';
    end if;
    return (
        select coalesce(
            jsonb_object_agg(
                key,
                case when p.value is null then t.value else pilotis.merge_patch(t.value, p.value) end
            ) filter (where p.value is null or jsonb_typeof(p.value) <> 'null'),
            '{}'
        )
        from jsonb_each(target) t full join jsonb_each(patch) p using (key)
    );
end $$;

-- The target with a value at a path of object keys. What is not there on the way, or is no object, becomes one;
-- a path does not reach into arrays, which stay what they are.
create function pilotis.set_at(target jsonb, path text[], value jsonb) returns jsonb
language plpgsql immutable parallel safe as $$
begin
    if cardinality(path) = 0 then
        return value;
    end if;
    if jsonb_typeof(target) = 'array' then
        return target;
    end if;
    if target is null or jsonb_typeof(target) <> 'object' then
        target := '{}';
    end if;
    return target || jsonb_build_object(path[1], pilotis.set_at(target -> path[1], path[2:], value));
end $$;

-- The target without what is at a path of object keys, if anything is.
create function pilotis.without(target jsonb, path text[]) returns jsonb
language plpgsql immutable strict parallel safe as $$
begin
    if jsonb_typeof(target) <> 'object' or not target ? path[1] then
        return target;
    end if;
    if cardinality(path) = 1 then
        return target - path[1];
    end if;
    return target || jsonb_build_object(path[1], pilotis.without(target -> path[1], path[2:]));
end $$;

-- A string inside a JSON value; null where there is none, or something else.
create function pilotis.text_at(value jsonb, path text[]) returns text
language sql immutable strict parallel safe as $$
    select case when jsonb_typeof(value #> path) = 'string' then value #>> path end
$$;

-- Text as it is searched: compatibility characters replaced (NFKC), accents off, lower case; see
-- pilotis.rows.search.text. Most text is ASCII, which needs the last of these only.
create function pilotis.folded(value text) returns text
language plpgsql immutable strict parallel safe as $$
begin
    if octet_length(value) = length(value) then
        return lower(value collate "default");
    end if;
    value := regexp_replace(normalize(value, NFKD), '[\u0300-\u036f]+', '', 'g');
    return lower(normalize(value, NFKC) collate "default");
end $$;

-- What full-text search reads of a text: its words and, in scripts that set no spaces, pairs of neighbours: each
-- character c becomes "c c", so 東京都 turns into 東 東京 京都 都. Only the first 100,000 characters count, or 75,000
-- where most take four bytes, because a tsvector holds at most 1 MB, and each pair takes its bytes and four more. Signs in which PostgreSQL's parser would see host names, tags, paths or numbers go.
-- Its cost is told, because even hundreds of looks into an index are cheaper than reading every row's words.
create function pilotis.search_words(value text) returns tsvector
language plpgsql immutable strict parallel safe cost 2000 as $$
declare
    unspaced constant text := '[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff'
        '\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff]';
begin
    value := left(value, 100000);
    if octet_length(value) <> length(value) then
        value := left(pilotis.folded(value), 100000);
        if octet_length(value) > 3 * length(value) then
            value := left(value, 75000);
        end if;
        value := regexp_replace(value, '(' || unspaced || '+)', ' \1 ', 'g');
        value := regexp_replace(value, '(' || unspaced || ')', '\1 \1', 'g');
    end if;
    return to_tsvector('pg_catalog.simple', translate(value, '-+./@<&', '       '));
end $$;

-- What a value is completed by; null for a text too long to be suggested, or to be in an index.
create function pilotis.suggestion_key(value text) returns text
language plpgsql immutable strict parallel safe as $$
begin
    if length(value) > 200 then
        return null;
    end if;
    value := pilotis.folded(value);
    return case when octet_length(value) <= 1000 then value end;
end $$;

-- The point {latitude, longitude}, in degrees, on the unit sphere; null for a value that is none.
create function pilotis.unit_vector(place jsonb) returns float8[]
language plpgsql immutable strict parallel safe as $$
declare
    latitude float8;
    longitude float8;
begin
    if jsonb_typeof(place -> 'latitude') = 'number' and jsonb_typeof(place -> 'longitude') = 'number'
        and (place ->> 'latitude')::numeric between -90 and 90
        and (place ->> 'longitude')::numeric between -180 and 180
    then
        latitude := place -> 'latitude';
        longitude := place -> 'longitude';
        return array[cosd(latitude) * cosd(longitude), cosd(latitude) * sind(longitude), sind(latitude)];
    end if;
    return null;
end $$;

-- Whether a point lies in a box that reaches `width` degrees eastwards from its western side. Every meridian meets
-- at the poles.
create function pilotis.in_box(place jsonb, south float8, west float8, north float8, width float8) returns boolean
language plpgsql immutable strict parallel safe as $$
declare
    latitude float8;
    east float8;
begin
    if pilotis.unit_vector(place) is null then
        return false;
    end if;
    latitude := place -> 'latitude';
    east := (place -> 'longitude')::float8 - west;
    return latitude between south and north
        and (abs(latitude) = 90 or east - 360 * floor(east / 360) <= width);
end $$;

-- A point of the sphere seen from its centre, on the plane that touches it at the first axis of `frame` (three unit
-- vectors in a row), in metres: great circles become straight lines. Null for the other half of the sphere.
create function pilotis.gnomonic(v float8[], frame float8[]) returns point
language plpgsql immutable strict parallel safe as $$
declare
    depth float8 := v[1] * frame[1] + v[2] * frame[2] + v[3] * frame[3];
begin
    if depth < 1e-6 then
        return null;
    end if;
    return point(
        6371008.8 * (v[1] * frame[4] + v[2] * frame[5] + v[3] * frame[6]) / depth,
        6371008.8 * (v[1] * frame[7] + v[2] * frame[8] + v[3] * frame[9]) / depth
    );
end $$;

-- What slow statements read tables by; `use` as pilotis.rows.indexes.uses.encode writes it, `columns` those in it.
create table pilotis.index_uses (
    app_id uuid not null,
    table_id uuid not null,
    use text not null,
    columns text[] not null,
    hits bigint not null,
    total_ms double precision not null,
    first_used_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3) not null default now(),
    primary key (app_id, table_id, use),
    foreign key (app_id, table_id) references pilotis.tables on delete cascade
);

-- Indexes that Pilotis built by itself, for the use that asked for them first. hits and total_ms are what spoke for
-- one when it was begun; idle is how long no query has used it while somebody watched.
create table pilotis.indexes (
    app_id uuid not null,
    table_id uuid not null,
    name text not null,
    use text not null,
    columns text[] not null,
    state text not null check (state in ('building', 'ready', 'failed', 'dropped')),
    hits bigint not null,
    total_ms double precision not null,
    error text,
    attempts integer not null default 1,
    retry_at timestamptz(3),
    size_bytes bigint not null default 0,
    scans bigint not null default 0,
    idle interval not null default '0',
    checked_at timestamptz(3) not null default now(),
    created_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3),
    primary key (app_id, table_id, name),
    foreign key (app_id, table_id) references pilotis.tables on delete cascade
);

-- A place for files. reserved_bytes is kept only where there is a quota: a row that every upload changes makes them
-- wait for each other. used_bytes likewise; where there is no quota both are summed when somebody asks.
create table pilotis.file_storages (
    app_id uuid not null references pilotis.apps on delete cascade,
    storage_id uuid not null,
    name text not null,
    upload_access text not null check (upload_access in ('Public', 'AppMember', 'Creator', 'Secret')),
    delete_access text not null check (delete_access in ('Public', 'AppMember', 'Creator', 'Secret')),
    read_access text not null check (read_access in ('Public', 'AppMember', 'Creator', 'Secret')),
    allowed_mime_types text[] not null default '{}',
    max_file_size bigint,
    quota_bytes bigint,
    used_bytes bigint not null default 0,
    reserved_bytes bigint not null default 0,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    primary key (app_id, storage_id),
    constraint file_storage_name_unique unique (app_id, name)
) with (fillfactor = 70);
-- Links to files carry no app.
create index file_storages_by_id on pilotis.file_storages (storage_id);

-- Files and folders; a folder has neither blob nor type. path is NFC, segments with / between them, unique in a
-- storage. is_fixed: uploaded to a path, where another upload may replace it.
create table pilotis.files (
    app_id uuid not null,
    storage_id uuid not null,
    file_id uuid not null,
    parent_id uuid,
    path text collate "C" not null,
    name text not null,
    is_folder boolean not null,
    is_fixed boolean not null default false,
    blob_id uuid,
    mime_type text,
    size bigint not null default 0,
    sha256 bytea,
    version integer not null default 1,
    creator text,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    primary key (app_id, file_id),
    unique (app_id, storage_id, path),
    foreign key (app_id, storage_id) references pilotis.file_storages on delete cascade,
    foreign key (app_id, parent_id) references pilotis.files,
    check (is_folder = (blob_id is null))
);
create index files_by_parent on pilotis.files (app_id, parent_id) where parent_id is not null;
create index files_by_storage on pilotis.files (app_id, storage_id, parent_id, name);

-- An upload from its presigned URL to its completion. pending: nothing has come; receiving: bytes come in, under a
-- lease that the receiving process renews; uploaded: all are there; completed: the file is listed, as item_id.
-- is_direct: the bytes go to the object store without passing here, to staging/{app_id}/{upload_id}.
-- draft: how far a resumable upload (tus) has come, in the object store's words; null for others. Its bytes are at
-- drafts/{app_id}/{upload_id}, and attempt_id is the request that may add to them while it is receiving. tus_metadata is
-- the header Upload-Metadata that it began with.
create table pilotis.uploads (
    app_id uuid not null,
    upload_id uuid not null,
    storage_id uuid not null,
    file_id uuid not null,
    parent_id uuid,
    path text collate "C" not null,
    name text not null,
    is_fixed boolean not null,
    may_replace boolean not null,
    mime_type text not null,
    size bigint not null,
    creator text,
    is_direct boolean not null,
    is_reserved boolean not null,
    state text not null default 'pending' check (state in ('pending', 'receiving', 'uploaded', 'completed')),
    blob_id uuid,
    draft text,
    tus_metadata text,
    attempt_id uuid,
    sha256 bytea,
    item_id uuid,
    lease_until timestamptz,
    received_at timestamptz,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    primary key (app_id, upload_id),
    foreign key (app_id, storage_id) references pilotis.file_storages on delete cascade
);
create index uploads_by_id on pilotis.uploads (upload_id);
create index uploads_by_file on pilotis.uploads (file_id);
-- It does not begin with the app, so that it is never taken for the primary key's work.
create index uploads_by_storage on pilotis.uploads (storage_id);
create index uploads_by_expiry on pilotis.uploads (expires_at);

-- What is to be deleted from the object store, and when: readers may still be at it. It outlives its app.
create table pilotis.dead_blobs (
    app_id uuid not null,
    key text not null,
    due_at timestamptz not null,
    primary key (app_id, key)
);
create index dead_blobs_by_due_time on pilotis.dead_blobs (due_at);

-- Whatever ends a file (itself, its storage, its app, an overwrite) ends its bytes: nothing can forget to.
create function pilotis.bury_blobs_of_files() returns trigger language plpgsql as $$
begin
    insert into pilotis.dead_blobs (app_id, key, due_at)
    select g.app_id, 'blobs/' || g.app_id || '/' || g.blob_id, now() + interval '10 minutes'
    from gone g
    where g.blob_id is not null
    on conflict do nothing;
    return null;
end $$;
create trigger bury_deleted after delete on pilotis.files
    referencing old table as gone for each statement execute function pilotis.bury_blobs_of_files();

create function pilotis.bury_replaced_blob() returns trigger language plpgsql as $$
begin
    insert into pilotis.dead_blobs (app_id, key, due_at)
    values (old.app_id, 'blobs/' || old.app_id || '/' || old.blob_id, now() + interval '10 minutes')
    on conflict do nothing;
    return null;
end $$;
create trigger bury_replaced after update on pilotis.files
    for each row when (old.blob_id is distinct from new.blob_id) execute function pilotis.bury_replaced_blob();

create function pilotis.bury_blobs_of_uploads() returns trigger language plpgsql as $$
begin
    insert into pilotis.dead_blobs (app_id, key, due_at)
    select g.app_id, 'blobs/' || g.app_id || '/' || g.blob_id, now() + interval '10 minutes'
    from gone g where g.blob_id is not null and g.state <> 'completed'
    union all
    select g.app_id, 'staging/' || g.app_id || '/' || g.upload_id, greatest(now(), g.expires_at)
    from gone g where g.is_direct
    union all
    select g.app_id, 'drafts/' || g.app_id || '/' || g.upload_id, now() + interval '10 minutes'
    from gone g where g.draft is not null
    on conflict do nothing;
    return null;
end $$;
create trigger bury_deleted after delete on pilotis.uploads
    referencing old table as gone for each statement execute function pilotis.bury_blobs_of_uploads();

-- A later attempt to receive an upload takes the place of one that was broken off.
create trigger bury_replaced after update on pilotis.uploads
    for each row when (old.blob_id is not null and old.blob_id is distinct from new.blob_id)
    execute function pilotis.bury_replaced_blob();
create index files_by_blob on pilotis.files (app_id, blob_id) where blob_id is not null;
create index uploads_by_blob on pilotis.uploads (app_id, blob_id) where blob_id is not null;

-- Smaller pictures made of a file, named by their recipe, of the content source_id. They end with it.
create table pilotis.variants (
    app_id uuid not null,
    file_id uuid not null,
    recipe text collate "C" not null,
    source_id uuid not null,
    blob_id uuid not null,
    size bigint not null,
    sha256 bytea not null,
    created_at timestamptz(3) not null default now(),
    used_at timestamptz(3) not null default now(),
    primary key (app_id, file_id, recipe),
    foreign key (app_id, file_id) references pilotis.files on delete cascade
);
create index variants_by_blob on pilotis.variants (app_id, blob_id);
create index variants_by_use on pilotis.variants (used_at);
create trigger bury_deleted after delete on pilotis.variants
    referencing old table as gone for each statement execute function pilotis.bury_blobs_of_files();

create function pilotis.end_variants() returns trigger language plpgsql as $$
begin
    delete from pilotis.variants where app_id = old.app_id and file_id = old.file_id;
    return null;
end $$;
create trigger end_variants after update on pilotis.files
    for each row when (old.blob_id is distinct from new.blob_id) execute function pilotis.end_variants();
