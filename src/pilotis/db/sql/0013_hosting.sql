-- owner: hosting
-- A web storage is a site: a name among hosts, and two pointers to deployments. revision counts the changes to what it
-- serves, so that a node can ask whether what it has cached is still right.
create table pilotis.web_storages (
    app_id uuid not null references pilotis.apps on delete cascade,
    storage_id uuid not null,
    slug text collate "C" not null,
    name text not null,
    description text not null,
    promote_mode text not null check (promote_mode in ('auto', 'manual')),
    not_found_mode text not null check (not_found_mode in ('auto', 'spa', '404')),
    clean_urls boolean not null,
    retain integer not null,
    qa_password_hash text,
    production_id uuid,
    qa_id uuid,
    last_version integer not null default 0,
    revision bigint not null default 1,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    primary key (app_id, storage_id),
    constraint web_storage_slug_unique unique (slug)
);

-- A name that was given up stays its app's for a while, so that nobody else takes over the links to it.
create table pilotis.web_freed_slugs (
    app_id uuid not null,
    slug text collate "C" not null,
    free_at timestamptz not null,
    primary key (app_id, slug)
);
create index web_freed_slugs_by_slug on pilotis.web_freed_slugs (slug);

-- version is null until a deployment is ready. production_until: when it stopped being the one that is served.
create table pilotis.web_deployments (
    app_id uuid not null,
    deployment_id uuid not null,
    storage_id uuid not null,
    version integer,
    status text not null check (status in ('processing', 'ready', 'failed', 'expired')),
    source text not null check (source in ('zip', 'incremental', 'console')),
    target text check (target in ('qa')),
    base_id uuid,
    manifest_hash bytea,
    file_count integer not null default 0,
    total_size bigint not null default 0,
    uploaded_size bigint not null default 0,
    added integer not null default 0,
    changed integer not null default 0,
    removed integer not null default 0,
    message text,
    warnings text not null default '[]',
    error text,
    actor_kind text not null,
    actor_id text,
    created_at timestamptz(3) not null default now(),
    ready_at timestamptz(3),
    production_until timestamptz,
    primary key (app_id, deployment_id),
    foreign key (app_id, storage_id) references pilotis.web_storages on delete cascade
);
create unique index web_deployments_by_version on pilotis.web_deployments (app_id, storage_id, version);
create index web_deployments_by_storage on pilotis.web_deployments (app_id, storage_id, deployment_id);

-- The manifests. A deployment's files never change.
create table pilotis.web_files (
    app_id uuid not null,
    deployment_id uuid not null,
    path text collate "C" not null,
    sha256 bytea not null,
    size bigint not null,
    content_type text not null,
    primary key (app_id, deployment_id, path),
    foreign key (app_id, deployment_id) references pilotis.web_deployments on delete cascade
);
create index web_files_by_content on pilotis.web_files (app_id, sha256);

-- The contents of files, each once in an app, with their compressed forms where those are worth it.
create table pilotis.web_blobs (
    app_id uuid not null references pilotis.apps on delete cascade,
    sha256 bytea not null,
    blob_id uuid not null,
    size bigint not null,
    brotli_id uuid,
    brotli_size bigint,
    gzip_id uuid,
    gzip_size bigint,
    compressed_at timestamptz,
    created_at timestamptz not null default now(),
    last_used_at timestamptz not null default now(),
    primary key (app_id, sha256)
) with (fillfactor = 80);
create index web_blobs_by_last_use on pilotis.web_blobs (last_used_at);
create index web_blobs_by_blob on pilotis.web_blobs (app_id, blob_id);

create function pilotis.mark_web_blobs() returns trigger language plpgsql as $$
begin
    insert into pilotis.pending_deletions (app_id, key, due_at)
    select g.app_id, 'blobs/' || g.app_id || '/' || blob.id, now() + interval '10 minutes'
    from gone g cross join lateral (values (g.blob_id), (g.brotli_id), (g.gzip_id)) blob (id)
    where blob.id is not null
    on conflict do nothing;
    return null;
end $$;
create trigger mark_deleted after delete on pilotis.web_blobs
    referencing old table as gone for each statement execute function pilotis.mark_web_blobs();

create table pilotis.web_promotions (
    app_id uuid not null,
    promotion_id uuid not null,
    storage_id uuid not null,
    channel text not null check (channel in ('production', 'qa')),
    deployment_id uuid not null,
    previous_id uuid,
    kind text not null check (kind in ('deploy', 'promote', 'rollback')),
    actor_kind text not null,
    actor_id text,
    created_at timestamptz(3) not null default now(),
    primary key (app_id, promotion_id),
    foreign key (app_id, storage_id) references pilotis.web_storages on delete cascade
);
create index web_promotions_by_storage on pilotis.web_promotions (app_id, storage_id, promotion_id);

create table pilotis.web_page_metas (
    app_id uuid not null,
    storage_id uuid not null,
    path text collate "C" not null,
    title text,
    description text,
    image text,
    og_type text,
    extra text not null default '{}',
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    primary key (app_id, storage_id, path),
    foreign key (app_id, storage_id) references pilotis.web_storages on delete cascade
);

-- Several storages may ask for a name; the one that proves it first has it.
create table pilotis.web_domains (
    app_id uuid not null,
    storage_id uuid not null,
    hostname text collate "C" not null,
    token text not null,
    verified_at timestamptz(3),
    created_at timestamptz(3) not null default now(),
    primary key (app_id, storage_id, hostname),
    foreign key (app_id, storage_id) references pilotis.web_storages on delete cascade
);
create unique index web_domains_verified on pilotis.web_domains (hostname) where verified_at is not null;
