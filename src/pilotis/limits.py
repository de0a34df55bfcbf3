"""All limits in one table: the class `Limits`. The docstring below a name says what it bounds.

The type of a limit says which values it may have, its unit, and with `App[…]` that an app may have its own value. The
settings, the routes of an app's limits with their validation, and `docs/configuration.md` are generated from this.
Limits without a unit are counts.

An app may only make a limit stricter than the server's: the server pays what a limit costs. `for_app` is called once
for each app that is loaded, so that a request reads plain attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, get_args

import msgspec

Value = TypeVar("Value")

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
Bytes = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000, extra={"unit": "bytes"})]
Rate = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000, extra={"unit": "per minute"})]
OptionalRate = Annotated[
    int, msgspec.Meta(ge=0, le=1_000_000_000, extra={"unit": "per minute", "zero_is_unlimited": True})
]
Lifetime = Annotated[int, msgspec.Meta(ge=1, le=10 * 366 * 24 * 3600, extra={"unit": "seconds"})]
LogBytes = Annotated[int, msgspec.Meta(ge=1024**2, le=2**50, extra={"unit": "bytes"})]
Days = Annotated[int, msgspec.Meta(ge=1, le=3660, extra={"unit": "days"})]

App = Annotated[Value, msgspec.Meta(extra={"per_app": "at_most"})]
"""An app may set a lower value for itself."""
AppAtLeast = Annotated[Value, msgspec.Meta(extra={"per_app": "at_least"})]
"""An app may set a higher value for itself, where higher is stricter."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a request, an app or a client may use at most."""

    signin_per_minute: App[Rate] = 10
    """Sign-ins with one login_id from one address, and checks of one account's current password; each excess doubles
    the wait, up to `signin_max_wait_seconds`.
    """
    signin_address_per_minute: App[Rate] = 300
    """Sign-ins from one address, whatever the login_id; whole offices may share one address."""
    signin_max_wait_seconds: Annotated[int, msgspec.Meta(ge=60, le=24 * 3600, extra={"unit": "seconds"})] = 15 * 60
    """Longest wait after too many sign-ins with one login_id."""
    signup_per_minute: App[Rate] = 120
    """Sign-ups from one address."""
    guest_per_minute: App[Rate] = 120
    """Guests created from one address."""
    upload_per_minute: App[OptionalRate] = 0
    """Uploads started from one address; 0 = unlimited."""
    data_per_minute: App[OptionalRate] = 0
    """Requests with the public key from one address; 0 = unlimited."""
    access_token_seconds: App[Annotated[int, msgspec.Meta(ge=30, le=24 * 3600, extra={"unit": "seconds"})]] = 3600
    """Lifetime of an access token."""
    refresh_token_seconds: App[Lifetime] = 30 * 24 * 3600
    """Lifetime of a refresh token; each refresh restarts it."""
    guest_refresh_token_seconds: App[Lifetime] = 90 * 24 * 3600
    """Lifetime of a guest's refresh token."""
    guest_days: App[Days] = 90
    """Days without a request after which a guest is deleted that has no session, rows, files or custom data."""
    refresh_retry_seconds: App[Annotated[int, msgspec.Meta(ge=0, le=300, extra={"unit": "seconds"})]] = 10
    """Time for which a used refresh token gets the same successor again, from the successor's first use on."""
    invitation_days: App[Days] = 7
    """Lifetime of an invitation to an app."""
    member_invitations: App[Count] = 200
    """Open invitations of an app to become its member."""
    idempotency_hours: App[Annotated[int, msgspec.Meta(ge=1, le=7 * 24, extra={"unit": "hours"})]] = 24
    """Time for which a repeated request with an `Idempotency-Key` gets the first answer."""
    console_fresh_seconds: Annotated[int, msgspec.Meta(ge=0, le=366 * 24 * 3600, extra={"unit": "seconds"})] = 3600
    """Time since a console user's last proof of who it is, after which secret keys, roles and deletion ask again.

    0 = never.
    """
    password_reset_seconds: Lifetime = 3600
    """Lifetime of the link printed by `pilotis user reset`."""
    password_min_length: AppAtLeast[Annotated[int, msgspec.Meta(ge=1, le=256, extra={"unit": "characters"})]] = 8
    """Minimum length of a password; an app may require more."""
    password_max_length: App[Annotated[int, msgspec.Meta(ge=8, le=4096, extra={"unit": "characters"})]] = 256
    """Maximum length of a password."""
    argon2_memory_kib: Annotated[int, msgspec.Meta(ge=8, le=4 * 1024 * 1024, extra={"unit": "KiB"})] = 19 * 1024
    """Memory of one password hash (argon2id's m). Hashes with other parameters remain valid."""
    argon2_passes: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 2
    """Passes of one password hash (argon2id's t); p is 1."""
    login_id_length: App[Annotated[int, msgspec.Meta(ge=1, le=500, extra={"unit": "characters"})]] = 255
    """Maximum length of a login_id."""
    custom_data_bytes: App[Bytes] = 64 * 1024
    """A member's custom_data, as JSON text."""
    body_bytes: App[Annotated[int, msgspec.Meta(ge=1024, le=1_000_000_000, extra={"unit": "bytes"})]] = 10 * 1024 * 1024
    """A JSON body with rows: create, change, batch, transaction."""
    body_values: App[Positive] = 1_000_000
    """Values in a JSON body with rows; each object and array counts as one, in addition to its values."""
    query_bytes: App[Bytes] = 256 * 1024
    """A JSON body without rows: a condition, a pipeline, a schema, a definition."""
    query_values: App[Positive] = 50_000
    """Values in a JSON body without rows."""
    in_flight_bytes: Bytes = 256 * 1024 * 1024
    """Bodies and answers in memory at once, in one worker; those of up to 64 KiB are not counted."""
    app_in_flight_bytes: Bytes = 128 * 1024 * 1024
    """Bodies and answers in memory at once of one app, in one worker."""
    streams: Count = 1000
    """Open event streams in one worker."""
    app_streams: App[Count] = 100
    """Open event streams of one app in one worker."""
    live_streams: Count = 20_000
    """Open live streams, which tell of changes of rows, in one worker."""
    app_live_streams: App[Count] = 10_000
    """Open live streams of one app in one worker."""
    client_live_streams: App[Count] = 100
    """Open live streams of one app from one client address, in one worker."""
    member_live_streams: App[Count] = 20
    """Open live streams of one member, in one worker."""
    live_subscriptions: App[Positive] = 50
    """Subscriptions of a live stream."""
    live_channels: App[Positive] = 20
    """Channels to which a live stream listens."""
    live_per_minute: App[Rate] = 60
    """Live streams opened from one address, without those that go on after an earlier one."""
    live_log_rows: Positive = 200_000
    """Changes of rows that an app's log keeps for live streams which resume; it keeps none longer than 15 minutes."""
    client_in_flight_bytes: Bytes = 64 * 1024 * 1024
    """Bodies and answers in memory at once of one client address, in one worker."""
    transfer_bytes_per_second: Count = 2000
    """Minimum rate of a client that sends a body or reads an answer, in bytes per second; with 0 only a pause of a
    minute is too slow.
    """
    transfer_grace_seconds: Annotated[int, msgspec.Meta(ge=0, le=60, extra={"unit": "seconds"})] = 30
    """Time that a client may wait before the minimum rate applies; a single pause may last a minute."""
    app_exports: App[Positive] = 2
    """Concurrent exports of one app, in one worker."""
    exports: Positive = 16
    """Concurrent exports, in one worker; each has its own database connection."""
    app_archives: App[Positive] = 7
    """Archives of one app that are kept for download; the oldest is deleted after a new one."""
    archive_bytes: LogBytes = 10 * 1024**3
    """An archive that a console user imports."""
    json_depth: App[Annotated[int, msgspec.Meta(ge=4, le=64, extra={"unit": "levels"})]] = 64
    """Nesting of a JSON body."""
    row_bytes: App[Bytes] = 1024 * 1024
    """A row's data, as JSON text."""
    page_rows: App[Positive] = 1000
    """Maximum `limit` of a list or a query; a larger one is lowered to it."""
    page_default_rows: App[Positive] = 20
    """The `limit` of a list or a query without one."""
    page_bytes: App[Bytes] = 32 * 1024 * 1024
    """Rows of one page, as JSON text."""
    default_bytes: App[Bytes] = 16 * 1024
    """A column's default, as JSON text."""
    bulk_rows: App[Positive] = 1000
    """Rows in one bulk create."""
    batch_operations: App[Positive] = 500
    """Operations in a batch."""
    transaction_operations: App[Positive] = 500
    """Operations in a transaction."""
    columns: App[Annotated[int, msgspec.Meta(ge=1, le=1000)]] = 200
    """Columns of a table."""
    column_name_bytes: App[Annotated[int, msgspec.Meta(ge=1, le=63, extra={"unit": "bytes"})]] = 63
    """Length of a column name; PostgreSQL allows no more."""
    tables: App[Positive] = 1000
    """Tables of an app."""
    views: App[Positive] = 100
    """Saved views of an app."""
    key_misses_per_minute: App[Rate] = 60
    """Rows that one client address asks for by a unique key without finding them, where it may not list the table."""
    schema_per_minute: App[OptionalRate] = 120
    """Schema changes of an app, counted separately for its owners and for the public key alone; 0 = unlimited."""
    trash_tables: App[Positive] = 100
    """Dropped tables in an app's trash; beyond it the oldest are deleted permanently."""
    trash_columns: App[Annotated[int, msgspec.Meta(ge=1, le=200)]] = 100
    """Dropped columns of a table in the trash; beyond it the oldest are deleted permanently."""
    trash_days: App[Days] = 7
    """Time for which a dropped table or column can be restored."""
    branches: App[Count] = 5
    """Branches of an app."""
    deleted_app_days: Days = 7
    """Time for which a deleted app can be restored."""
    storages: App[Positive] = 100
    """File storages of an app."""
    file_bytes: App[Annotated[int, msgspec.Meta(ge=1, le=2**43, extra={"unit": "bytes"})]] = 5 * 1024 * 1024 * 1024
    """Largest file; a storage may set a lower limit."""
    storage_quota_bytes: App[
        Annotated[int, msgspec.Meta(ge=0, le=2**53, extra={"unit": "bytes", "zero_is_unlimited": True})]
    ] = 10 * 1024 * 1024 * 1024
    """Quota of a file storage that is created without one; 0 = unlimited."""
    upload_seconds: App[Annotated[int, msgspec.Meta(ge=1, le=7 * 24 * 3600, extra={"unit": "seconds"})]] = 3600
    """Lifetime of an upload URL."""
    resumable_upload_seconds: App[Annotated[int, msgspec.Meta(ge=1, le=30 * 24 * 3600, extra={"unit": "seconds"})]] = (
        24 * 3600
    )
    """Lifetime of a resumable upload."""
    web_storages: App[Positive] = 100
    """Web storages of an app."""
    site_zip_bytes: App[Bytes] = 200 * 1024 * 1024
    """A zip archive that is deployed."""
    site_bytes: App[Bytes] = 500 * 1024 * 1024
    """Files of a deployment in total, in an archive or in the parts of one request."""
    site_files: App[Annotated[int, msgspec.Meta(ge=1, le=100_000)]] = 20_000
    """Files of a deployment."""
    site_file_bytes: App[Bytes] = 50 * 1024 * 1024
    """A file of a deployment, in an archive or in a part of a request."""
    site_upload_bytes: App[Bytes] = 1_000_000_000
    """A file of a deployment that is sent to an upload URL."""
    zip_deploys_per_hour: App[Positive] = 100
    """Archives that an app may deploy per hour; incremental deployments do not count."""
    page_metas: App[Positive] = 10_000
    """Pages of a web storage that have metadata."""
    site_domains: App[Positive] = 50
    """Domains of a web storage."""
    certificates_per_hour: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000, extra={"unit": "per hour"})] = 20
    """Certificates that are ordered for domains and names of sites, with those that are renewed."""
    regex_length: App[Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000, extra={"unit": "characters"})]] = 256
    """A `$matches` pattern."""
    rule_bytes: App[Bytes] = 8 * 1024
    """Size of a rule; the rules of a table may have four times as much."""
    where_depth: App[Annotated[int, msgspec.Meta(ge=1, le=60, extra={"unit": "levels"})]] = 10
    """Nesting of a `where`."""
    where_conditions: App[Positive] = 100
    """Conditions in a `where`."""
    where_list_values: App[Positive] = 1000
    """Values in a list of a `where`."""
    update_where_rows: App[Positive] = 10_000
    """Rows that one update by a condition may change."""
    expand_rows: App[Positive] = 10_000
    """Related rows that one answer may hold, as the limits of the request add up."""
    cascade_rows: App[Positive] = 10_000
    """Rows that a deletion may delete or change, with those that refer to its rows."""
    aggregate_stages: App[Annotated[int, msgspec.Meta(ge=1, le=1000)]] = 20
    """Stages of a pipeline."""
    aggregate_documents: App[Positive] = 10_000
    """Documents that a pipeline returns."""
    search_query_length: App[Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000, extra={"unit": "characters"})]] = 500
    """Length of a search or autocomplete text."""
    polygon_points: App[Positive] = 10_000
    """Points of a polygon."""
    column_migration_rows: Count = 20_000
    """Rows up to which turning `encrypted` on or off rewrites a table at once, and a unique key is built at once; for
    larger tables both are done in the background.
    """
    index_rows: Positive = 10_000
    """Rows from which a table automatically gets the indexes that its queries need."""
    indexes: App[Count] = 200
    """Automatic indexes of an app."""
    table_indexes: App[Count] = 16
    """Automatic indexes of a table."""
    index_percent: App[Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000, extra={"unit": "percent"})]] = 300
    """Total size of a table's automatic indexes, in percent of the table's size."""
    index_unused_days: Days = 28
    """Days after which an unused automatic index is dropped."""
    mail_per_day: App[Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000, extra={"zero_is_unlimited": True})]] = 200
    """Mails of an app in 24 hours by the server's SMTP server, not by its own; 0 = unlimited."""
    mail_requests_per_minute: App[Rate] = 30
    """Requests for mail, such as for a new password, from one address."""
    webhooks: App[Count] = 50
    """Webhooks of an app."""
    webhook_pending: Positive = 100_000
    """Pending deliveries of one webhook; further ones fail, and can be recovered."""
    webhook_body_bytes: Annotated[int, msgspec.Meta(ge=4096, le=10_000_000, extra={"unit": "bytes"})] = 256 * 1024
    """Body of a delivery; a larger event is sent without its row."""
    oauth_client_failures_per_minute: Rate = 20
    """Failed authentications of one OAuth client from one address."""
    oauth_registrations_per_hour: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000, extra={"unit": "per hour"})] = 10
    """Clients that register with the OAuth provider without a credential, or whose document is read for the first time,
    from one address.
    """
    oauth_requests_per_minute: Rate = 600
    """Sign-ins that are started from one address: authorization requests that ask a member, those that public clients
    push, and social logins.
    """
    oauth_exchange_failures_per_minute: Rate = 60
    """Exchanges of a wrong code after social login, from one address."""
    webhook_tests_per_minute: App[Rate] = 10
    """Test deliveries of one webhook."""
    event_types: App[Count] = 200
    """Event types that an app may declare."""
    event_days: App[Days] = 30
    """Days for which events, and deliveries to webhooks that did not succeed, are kept."""
    event_log_bytes: App[LogBytes] = 5 * 1024**3
    """Events of an app together, about; beyond it the oldest go."""
    event_log_total_bytes: LogBytes = 20 * 1024**3
    """Events of all apps together, about; beyond it the oldest of the largest apps go."""
    delivery_days: App[Days] = 7
    """Days for which deliveries to webhooks that succeeded are kept."""
    delivery_log_bytes: App[LogBytes] = 5 * 1024**3
    """Deliveries of an app's webhooks together, about; beyond it the oldest that have ended go."""
    delivery_log_total_bytes: LogBytes = 20 * 1024**3
    """Deliveries of all apps' webhooks together, about; beyond it the oldest of the largest apps go."""
    functions: App[Count] = 100
    """Functions of an app."""
    function_versions: App[Positive] = 20
    """Newest versions of a function whose source is kept."""
    function_source_bytes: App[Bytes] = 10 * 1024 * 1024
    """Files of a function together."""
    function_seconds: App[Annotated[int, msgspec.Meta(ge=1, le=3600, extra={"unit": "seconds"})]] = 30
    """Time of a call of a function that is created without one."""
    function_seconds_max: App[Annotated[int, msgspec.Meta(ge=1, le=3600, extra={"unit": "seconds"})]] = 300
    """Longest time that a call of a function may have."""
    function_memory_mb: App[Annotated[int, msgspec.Meta(ge=32, le=4096, extra={"unit": "MB"})]] = 128
    """Memory of a function that is created without one."""
    function_memory_mb_max: App[Annotated[int, msgspec.Meta(ge=32, le=4096, extra={"unit": "MB"})]] = 512
    """Maximum memory that a function may have."""
    function_at_once: App[Positive] = 10
    """Calls of an app's functions that run at once in one worker."""
    function_waiting: App[Count] = 100
    """Calls of an app's functions that wait in one worker; further ones get 429."""
    function_triggers: App[Count] = 20
    """Triggers of an app's functions."""
    function_record_days: App[Days] = 7
    """Days for which records of calls are kept."""
    versions_kept: Positive = 50
    """Newest versions of a function or workflow, and deployments of a site, that are kept besides those in use."""
    invoke_per_minute: App[OptionalRate] = 0
    """Calls of functions from one address; 0 = unlimited."""
    workflows: App[Count] = 200
    """Workflows of an app."""
    workflow_pending: App[Positive] = 10_000
    """Executions of an app's workflows that wait to be run; further ones get 429."""
    workflow_seconds_max: App[Annotated[int, msgspec.Meta(ge=1, le=1800, extra={"unit": "seconds"})]] = 1800
    """Longest time that an execution of a workflow may have, and that of one without its own."""
    trigger_per_minute: App[Rate] = 600
    """Requests for the trigger URL of one workflow."""
    workflow_days: Days = 30
    """Days for which executions that have ended are kept."""
    workflow_executions: Positive = 10_000
    """Executions of a workflow that are kept once they have ended."""
    audit_days: Annotated[int, msgspec.Meta(ge=0, le=36_500, extra={"unit": "days", "zero_is_unlimited": True})] = 365
    """Days for which entries of the audit log are kept; 0 = forever."""
    audit_entries: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000, extra={"zero_is_unlimited": True})] = 100_000
    """Newest entries of an app's audit log that are kept, separately for those of clients, of started executions
    and all others; 0 = all.
    """

    def page_size(self, wanted: int | None) -> int:
        """Return the number of items on a page: the requested number or the default, but at most the maximum."""
        if wanted is None:
            wanted = self.page_default_rows
        return min(self.page_rows, wanted)


def _extras(kind: Any) -> dict[str, Any]:
    """Return what the metadata of a limit's type contains besides its bounds."""
    metas = [meta for meta in get_args(kind)[1:] if isinstance(meta, msgspec.Meta)]
    return {name: value for meta in metas for name, value in (meta.extra or {}).items()}


EXTRAS = {field.name: _extras(field.type) for field in msgspec.structs.fields(Limits)}
"""For each limit its `unit`, whether it is `per_app`, and `zero_is_unlimited`, if it has them."""
PER_APP = frozenset(name for name, extras in EXTRAS.items() if "per_app" in extras)
"""The limits that an app may override."""


def unit_of(name: str) -> str | None:
    """Return a limit's unit, such as `bytes`; None for a count."""
    unit: str | None = EXTRAS[name].get("unit")
    return unit


def zero_is_unlimited(name: str) -> bool:
    """Return whether 0 lifts a limit; for the others it is the least."""
    return bool(EXTRAS[name].get("zero_is_unlimited"))


def stricter(name: str, server: int, own: int) -> int:
    """Return the stricter of the server's value and an app's own: the one that allows less."""
    extras = EXTRAS[name]
    if extras["per_app"] == "at_least":
        return max(server, own)
    if zero_is_unlimited(name) and 0 in (server, own):
        return server or own
    return min(server, own)


def for_app(server: Limits, own: Mapping[str, int]) -> Limits:
    """Return the server's limits, overridden by those of the app's own that are stricter."""
    values = {name: stricter(name, getattr(server, name), own[name]) for name in PER_APP & own.keys()}
    return msgspec.structs.replace(server, **values) if values else server


def limits_in_force(server: Limits, plan: str, own: str) -> Limits:
    """Return the strictest of the server's limits, those of an app's plan and its own: JSON objects."""
    return for_app(for_app(server, msgspec.json.decode(plan)), msgspec.json.decode(own))


def contradiction(limits: Limits) -> tuple[str, str] | None:
    """Return the name of a limit that contradicts another, and a sentence about it; None if there is none."""
    if limits.password_min_length > limits.password_max_length:
        return "password_min_length", f"A password has at most {limits.password_max_length} characters here."
    return None
