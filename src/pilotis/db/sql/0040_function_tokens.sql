-- owner: security.function_tokens
-- The executions of functions that have a token for calls over HTTP. A row is deleted when its execution ends, and the
-- token is void without it; a crash of PostgreSQL, which empties the table, ends the tokens early.
create unlogged table pilotis.function_tokens (
    app_id uuid not null references pilotis.apps on delete cascade,
    execution_id uuid not null,
    uses int not null default 0,
    expires_at timestamptz(3) not null,
    primary key (app_id, execution_id)
);
create index function_tokens_expired on pilotis.function_tokens (expires_at);
