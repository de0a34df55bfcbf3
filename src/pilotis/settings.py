"""Settings: from flags, then `PILOTIS_*` variables, then a TOML file, then the defaults here.

`--port` and `PILOTIS_PORT` set `port`; `PILOTIS_LIMITS_ROW_BYTES` sets `row_bytes` of the table `[limits]`. A variable
that is empty counts as unset. `docs/configuration.md` is generated from these types.
"""

from __future__ import annotations

import functools
import re
import ssl
import tomllib
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_origin
from urllib.parse import urlsplit

import msgspec

from pilotis.kit.expected import expectation
from pilotis.kit.hostnames import hostname_of
from pilotis.kit.mail_addresses import parse_sender
from pilotis.kit.networks import parse_network
from pilotis.kit.smtp_urls import parse_smtp_url
from pilotis.limits import Limits, contradiction

PREFIX = "PILOTIS_"
_VARIABLES = {"oauth_rsa_private_key_pem": "OAUTH_RSA_PRIVATE_KEY_PEM"}
"""Settings whose environment variable the public interface defines, without the prefix."""
_FLAGS = {"https_names": "--https"}
"""Settings whose flag has a shorter name."""
FILE_NAME = "pilotis.toml"
_RENAMED = {"limits.reseal_rows": "limits.column_migration_rows"}
"""Former names of settings; the change log lists them."""
OF_CLIENTS = frozenset({"PILOTIS_URL", "PILOTIS_PUBLIC_KEY", "PILOTIS_SECRET_KEY"})
"""Variables of `pilotis deploy` and related commands: they are not settings of a server."""

HTTPS_PORT = 443
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Origin = Annotated[str, msgspec.Meta(pattern=r"^https?://[^/\s?#]+$", examples=["https://example.com"])]


Url = Annotated[
    str, msgspec.Meta(pattern=r"^https://[^/\s?#]+/[^\s#]*$", examples=["https://ca.example.com/directory"])
]
CollectorUrl = Annotated[
    str, msgspec.Meta(pattern=r"^https?://[^/\s?#]+/[^\s#]*$", examples=["http://127.0.0.1:4318/v1/traces"])
]

_WEBHOOK_SCHEDULE = (0.0, 5.0, 295.0, 1500.0, 7200.0, 18000.0, 36000.0, 50400.0, 72000.0, 86400.0)
_MASTER_KEY = re.compile("[0-9a-fA-F]{64}")
_MAX_GAP = 30 * 24 * 3600


class BackupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Backups of the server; see docs/backups.md."""

    store: str | None = None
    """Where the backups are: a URL as `blob_store`, or a directory on another disk. With it, PostgreSQL's log is
    archived there."""
    key: str | None = None
    """The backup key, 64 hexadecimal digits; without it `key_file` has it."""
    key_file: str | None = None
    """File of the backup key, best on another disk. Default: `backup.key` in the data directory."""
    full: str = "0 3 * * 0"
    """When the server makes a full backup, a cron expression in UTC; empty for never."""
    incremental: str = "0 3 * * *"
    """When it makes a backup of what changed since the one before, a cron expression in UTC; empty for never. It is a
    full one if there is none before, or PostgreSQL does not know what changed."""
    rehearse: str = "0 5 1 * *"
    """When the server restores the newest backup to try it, a cron expression in UTC; empty for never."""
    keep_days: Annotated[int, msgspec.Meta(ge=1, le=3650)] = 30
    """How far back the server can be restored; older backups are deleted after each new one."""
    spool_bytes: Annotated[int, msgspec.Meta(ge=0, le=10**15)] = 8 << 30
    """How much may wait on the disk while the store is away, compressed; 0 is unlimited. Beyond it the log is dropped,
    and a backup is made as soon as the store is there."""
    bytes_per_second: Annotated[int, msgspec.Meta(ge=0, le=10**12)] = 0
    """How fast PostgreSQL is read for a backup; 0 is unlimited."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How one `pilotis` process runs. All other configuration is in the database."""

    host: str = "127.0.0.1"
    """Address to listen on; use `0.0.0.0` for all interfaces, and set `base_url` as well."""
    port: Port = 8090
    """Port to listen on; 0 selects a free one."""
    data_dir: str = "pilotis-data"
    """Directory for the embedded database, files and keys; created with mode 0700 if it does not exist."""
    database_url: str | None = None
    """URL of a PostgreSQL (15 or newer) to use instead of the embedded one."""
    direct_database_url: str | None = None
    """URL of PostgreSQL itself, if `database_url` leads to a connection pooler."""
    database_pooler: Literal["none", "transaction"] = "none"
    """The pooler that `database_url` leads to: `transaction` for one in transaction mode, such as PgBouncer 1.21 or
    newer with `max_prepared_statements`; it needs `direct_database_url`.
    """
    postgres_binaries: str | None = None
    """Directory with `postgres` and `initdb` for the embedded database, instead of the included ones."""
    workers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    """Worker processes."""
    base_url: Origin | None = None
    """URL at which clients reach this server, such as `https://api.example.com`; by default host and port, or this
    machine's own address if the host is a wildcard.
    """
    console_origin: Origin | None = None
    """Origin of the console, the only one that may call console routes from a browser; by default that of
    `base_url`.
    """
    app_creation: Literal["everybody", "operators"] = "everybody"
    """Who may create apps: console users whom nobody restricted, or only the command line."""
    apps_per_user: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    """How many apps a console user may own, without branches; 0 = any number."""
    default_plan: str | None = None
    """The plan that new apps get; see `pilotis plan`."""
    console_second_factor: Literal["optional", "required"] = "optional"
    """Whether console users reach and create apps only once they have set up a second factor."""
    metrics_host: str = "127.0.0.1"
    """Address on which Prometheus' `/metrics` listens; it requires no credential."""
    metrics_port: Port | None = None
    """Port of `/metrics`; by default the port after `port`, 0 for none."""
    https_names: list[str] = []
    """Names under which this server answers by HTTPS itself, such as `api.example.com`, with certificates that it gets
    by ACME; `--https` sets them. The first is that of `base_url`.
    """
    https_email: str | None = None
    """Address that the certificate authority may write to; `--https-email` sets it."""
    https_directory: Url = "https://acme-v02.api.letsencrypt.org/directory"
    """URL of the ACME directory of the certificate authority; whoever sets `https_names` accepts its terms."""
    https_certificate: str | None = None
    """PEM file with a certificate and its chain, for HTTPS without ACME; it is read again when it changes."""
    https_key: str | None = None
    """PEM file with the private key of `https_certificate`; by default that is in the same file."""
    https_port: Port = 443
    """Port of HTTPS, if that is on."""
    http_port: Port = 80
    """Port beside it that answers the certificate authority, and redirects everything else to HTTPS; 0 selects a free
    one.
    """
    https_hsts_seconds: Annotated[int, msgspec.Meta(ge=0, le=63_072_000)] = 0
    """For how long browsers must use HTTPS only (`Strict-Transport-Security`), also for the domains of sites; 0 = the
    header is not sent.
    """
    trusted_proxies: list[str] = []
    """Addresses of reverse proxies whose `X-Forwarded-For` is trusted."""
    master_key: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-fA-F]{64}$")] | None = None
    """Master key as 64 hexadecimal digits; by default a file in the data directory. Never stored in the database."""
    master_key_file: str | None = None
    """File with the master key in place of `master_key`, such as a credential of systemd or a mounted secret."""
    previous_master_key: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-fA-F]{64}$")] | None = None
    """A second master key, as 64 hexadecimal digits, that is also accepted while the master key is rotated."""
    pool_size: Annotated[int, msgspec.Meta(ge=2, le=500)] = 10
    """Database connections per worker."""
    pool_waiters: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1_000
    """Requests of one app that may wait for a database connection in each worker; further ones get 503 at once."""
    statement_seconds: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 5.0
    """Time limit of a request's statement."""
    slow_statement_ms: Annotated[float, msgspec.Meta(ge=0, le=3_600_000)] = 500.0
    """Milliseconds from which on a statement is logged, with its route and its text without values; 0 for none."""
    otel_endpoint: CollectorUrl | None = None
    """URL to which traces are sent by OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`; it needs
    `pilotis[otel]`.
    """
    otel_sample: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.05
    """The share of the requests that is traced, of those whose caller does not decide it by a `traceparent`."""
    migration_wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 60.0
    """Seconds that a migration waits for transactions that use its tables, such as that of `pg_dump`."""
    background: list[str] = []
    """Queues of background work that this server processes, such as `light,builds`, or `none`; by default all."""
    node_lease_seconds: Annotated[float, msgspec.Meta(ge=2, le=300)] = 12.0
    """Seconds after which other processes take over the background work of one that no longer responds."""
    stop_seconds: Annotated[float, msgspec.Meta(ge=0, le=600)] = 20.0
    """Seconds that background work has to end at a stop; unfinished work continues elsewhere or later."""
    blob_store: str | None = None
    """Where the bytes of files are stored: a directory, or `s3://bucket/prefix?endpoint=…&region=…`, `gs://…`,
    `az://…`; by default `blobs` in the data directory.
    """
    previous_blob_store: str | None = None
    """A second object store, in which bytes are also found and deleted, while `pilotis storage move` copies them."""
    s3_access_key: str | None = None
    """Access key of the S3 store; without the two keys clients cannot upload to it directly."""
    s3_secret_key: str | None = None
    """Secret key of the S3 store."""
    files_base_url: Origin | None = None
    """URL with a separate host name under which files are served, such as `https://files.example.com`; by default
    `base_url`.
    """
    files_delivery: Literal["proxy", "redirect"] = "proxy"
    """Whether this server sends files, or redirects readers to the object store if that can sign URLs."""
    sites_base_url: Origin | None = None
    """URL below which each site has its own host name, such as `https://sites.example.com`; by default
    `http://localhost` with the server's port, which browsers reach on this machine.
    """
    sites_cache_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**40)] = 64 * 1024**2
    """Memory in each worker for recently requested files of sites and their metadata."""
    files_cache_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**40)] = 16 * 1024**2
    """Memory in each worker for recently requested small public files."""
    dns_servers: list[str] = []
    """Name servers, such as `192.0.2.53` or `192.0.2.53:5353`, for looking up the domains of sites; by default the
    system's.
    """
    upload_reserve_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**50)] = 1024**3
    """Free space of the disk with the files below which uploads fail with 507; 0 = no reserve."""
    upload_reserve_percent: Annotated[float, msgspec.Meta(ge=0, le=100)] = 5.0
    """The same in percent of that disk; the smaller of the two applies, but not less than twice `write_reserve_bytes`.
    """
    write_reserve_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**50)] = 128 * 1024**2
    """Free space of the embedded database's disk below which all other writes fail with 507; 0 = no reserve."""
    outgoing_networks: list[str] = []
    """Private networks, such as `10.1.0.0/16`, that the server may call on behalf of apps, also without TLS; all other
    addresses that it calls must be public and use `https`.
    """
    egress_networks: list[str] = []
    """Private networks that apps' own code may call."""
    outgoing_ca_file: str | None = None
    """PEM file with certificate authorities that are trusted for outgoing requests in addition to the system's."""
    outgoing_proxy: Origin | None = None
    """HTTP proxy for all outgoing requests, which also resolves host names; never taken from the environment's
    `HTTPS_PROXY`.
    """
    breached_passwords: str | None = None
    """Where apps with `password_check` look passwords up that were found in breaches: an https URL of the k-anonymity
    protocol, to which the first 5 digits of a password's SHA-1 are added, or a directory with such answers as files.
    """
    smtp_url: str | None = None
    """SMTP server that sends the mails of apps, such as `smtp://user:password@smtp.example.com:587` (with STARTTLS) or
    `smtps://…`; without one mails are stored and shown in the console.
    """
    mail_from: str | None = None
    """Sender of mails, such as `mail@example.com`; `smtp_url` needs it. Mails carry the app's name."""
    mail_reply_to: str | None = None
    """Address for answers to mails."""
    oauth_rsa_private_key_pem: str | None = None
    """Private RSA keys in PEM, of 2048 bits or more: the first signs OAuth tokens, all verify them; by default a key
    created by `pilotis oauth keys create`.
    """
    oauth_allow_http: bool = False
    """Whether the OAuth provider also answers requests that came by http, which anybody on the way can read."""
    oauth_dynamic_registration: bool = True
    """Whether clients may register with the OAuth provider without a credential; apps that allow it accept them."""
    webhook_schedule: list[float] = msgspec.field(default_factory=lambda: list(_WEBHOOK_SCHEDULE))
    """Seconds before each attempt of a webhook's delivery, including the first; by default over three days."""
    webhook_jitter: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.1
    """Fraction by which each of these times is randomised."""
    webhook_breaker_seconds: Annotated[float, msgspec.Meta(gt=0, le=300)] = 1.0
    """First pause of a webhook after 10 failures in a row; it doubles up to 5 minutes."""
    functions_isolation: Literal["auto", "bwrap", "landlock", "permissions", "own-code"] = "auto"
    """How functions are isolated; `auto`: by bubblewrap, else by Landlock, and on macOS `own-code`. `permissions` and
    `own-code` are for your own code alone, the latter only on a server that listens on loopback.
    """
    functions_sandboxes: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    """Maximum number of sandboxes for functions; 0 = the smaller of 32 and what half of the memory has room for."""
    functions_ready_javascript: Annotated[int, msgspec.Meta(ge=0, le=100)] = 2
    """Sandboxes for JavaScript that wait for a function, once there are functions."""
    functions_ready_python: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    """Sandboxes for Python that wait for a function, once there are functions."""
    functions_idle_seconds: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 300.0
    """Seconds after which the sandbox of an unused function ends."""
    functions_uid_base: Annotated[int, msgspec.Meta(ge=1000, le=2**31)] = 700_000
    """First of the numeric users, 262,144 at most, under which a server that runs as root starts sandboxes."""
    functions_npm_registry: str | None = None
    """URL of a registry of npm packages for functions in JavaScript; by default the public one."""
    functions_pypi_index: str | None = None
    """URL of an index of PyPI packages for functions in Python, PEP 503; by default the public one."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """Logs as JSON lines or as readable text; `auto` means text on a terminal."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level that is logged; requests are logged at `info`."""
    backup: BackupSettings = BackupSettings()
    """Backups, as the table `[backup]`."""
    limits: Limits = Limits()
    """Limits of this server, as the table `[limits]`."""

    @property
    def uses_https(self) -> bool:
        """Whether the server answers by HTTPS itself."""
        return bool(self.https_names) or self.https_certificate is not None

    @property
    def is_proxied(self) -> bool:
        """Whether an https `base_url` is that of a proxy in front of the server."""
        return not self.uses_https or bool(self.trusted_proxies)


SECTIONS: Mapping[str, type[msgspec.Struct]] = {"limits": Limits, "backup": BackupSettings}
"""The tables of the file, with what they have."""


class SettingsError(Exception):
    """One or more settings are invalid; `problems` has a sentence for each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load(flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None) -> Settings:
    """Return the settings; raises `SettingsError` with all problems at once.

    `flags` holds what was given on the command line. `file` is the TOML file; without it `pilotis.toml` in the working
    directory is read if it exists.
    """
    problems: list[str] = []
    given: dict[str, _Given] = {}
    given |= _from_file(file, problems)
    given |= _from_environment(environment)
    given |= _from_flags(flags)
    settings = _checked(given, problems)
    if problems:
        raise SettingsError(problems)
    return settings


@functools.cache
def known_names() -> dict[str, msgspec.structs.FieldInfo]:
    """Return every setting by name; those of a table are named `limits.<name>`."""
    own = {field.name: field for field in msgspec.structs.fields(Settings) if field.name not in SECTIONS}
    for section, type_ in SECTIONS.items():
        own |= {f"{section}.{field.name}": field for field in msgspec.structs.fields(type_)}
    return own


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return _VARIABLES.get(name) or PREFIX + name.replace(".", "_").upper()


_RENAMED_VARIABLES = {variable_of(old): new for old, new in _RENAMED.items()}


class _Given(NamedTuple):
    """A value, and where the user set it."""

    called: str
    value: Any


def _from_flags(flags: Mapping[str, Any]) -> dict[str, _Given]:
    given = {name: value for name, value in flags.items() if value is not None}
    return {
        name: _Given(_FLAGS.get(name) or f"--{name.replace('_', '-')}", _parts(name, value))
        for name, value in given.items()
    }


def _from_environment(environment: Mapping[str, str]) -> dict[str, _Given]:
    names = {variable_of(name): name for name in known_names()}
    given: dict[str, _Given] = {}
    for variable, value in environment.items():
        if variable in OF_CLIENTS:
            continue
        if value and (variable.startswith(PREFIX) or variable in _VARIABLES.values()):
            name = names.get(variable, variable)
            given[name] = _Given(variable, _parts(name, value))
    return given


def _parts(name: str, value: Any) -> Any:
    """Return the value of a flag or a variable: that of a list is separated by commas."""
    field = known_names().get(name)
    if field is None or get_origin(field.type) is not list or not isinstance(value, str):
        return value
    return [part.strip() for part in value.split(",") if part.strip()]


def _from_file(file: Path | None, problems: list[str]) -> dict[str, _Given]:
    path = file or Path(FILE_NAME)
    if file is None and not path.is_file():
        return {}
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}.")
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"{path}: not valid TOML: {error}.")
        return {}
    for section in SECTIONS:
        table = values.pop(section, {})
        if isinstance(table, dict):
            values |= {f"{section}.{name}": value for name, value in table.items()}
        else:
            problems.append(f"{path}: {section} must be a table.")
    return {name: _Given(f"{path}: {name}", value) for name, value in values.items()}


def _checked(given: Mapping[str, _Given], problems: list[str]) -> Settings:
    known = known_names()
    own: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for name, (called, value) in given.items():
        if name not in known:
            problems.append(_unknown(name, called))
            continue
        try:
            # The value of a flag or a variable is text.
            checked = msgspec.convert(value, known[name].type, strict=not isinstance(value, str | list))
        except msgspec.ValidationError as error:
            problems.append(f"{called}: {expectation(known[name].type, '', str(error)) or error}.")
            continue
        if name in _NORMALISED:
            checked = _NORMALISED[name](called, checked, problems)
        elif name in _CHECKS:
            _CHECKS[name](called, checked, problems)
        group, _, inner = name.partition(".")
        if inner:
            sections[group][inner] = checked
        else:
            own[group] = checked
    checked_limits = Limits(**sections["limits"])
    if wrong := contradiction(checked_limits):
        problems.append(f"limits.{wrong[0]}: {wrong[1]}")
    settings = Settings(**own, limits=checked_limits, backup=BackupSettings(**sections["backup"]))
    return _consistent(settings, given, problems)


def _consistent(settings: Settings, given: Mapping[str, _Given], problems: list[str]) -> Settings:
    """Return the settings with what follows from others; what contradicts another is added to the problems."""
    if settings.master_key_file is not None:
        settings = _with_master_key(settings, problems)
    if problem := _pooler_problem(settings):
        problems.append(problem)
    if settings.uses_https or settings.https_key:
        settings = _with_https(settings, given, problems)
    if settings.smtp_url and not settings.mail_from:
        problems.append("smtp_url: it needs mail_from, the sender of mails.")
    return settings


def _unknown(name: str, called: str) -> str:
    if name in _RENAMED_VARIABLES:
        return f"{called} has been renamed to {variable_of(_RENAMED_VARIABLES[name])}."
    return f"{called} has been renamed to {_RENAMED[name]}." if name in _RENAMED else f"{called} is not a setting."


def _with_master_key(settings: Settings, problems: list[str]) -> Settings:
    """Return the settings with the master key of its file; what is wrong with it is added to the problems."""
    assert settings.master_key_file is not None
    if settings.master_key is not None:
        problems.append("master_key_file: master_key is set as well; set one of them.")
    try:
        text = Path(settings.master_key_file).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        problems.append(f"master_key_file: {settings.master_key_file} cannot be read.")
        return settings
    if not _MASTER_KEY.fullmatch(text):
        problems.append(f"master_key_file: {settings.master_key_file} must have 64 hexadecimal digits.")
    return msgspec.structs.replace(settings, master_key=text)


def _with_https(settings: Settings, given: Mapping[str, _Given], problems: list[str]) -> Settings:
    """Return the settings of a server that answers by HTTPS; what contradicts that is added to the problems.

    It listens on all addresses unless told otherwise, and its `base_url` follows from the first name.
    """
    if settings.https_key and not settings.https_certificate:
        problems.append("https_key: it needs https_certificate.")
        return settings
    if "port" in given:
        problems.append(f"{given['port'].called}: with HTTPS the ports are https_port and http_port.")
    base = urlsplit(settings.base_url or "")
    if settings.base_url is None and not settings.https_names:
        problems.append("https_certificate: it needs base_url, such as https://api.example.com.")
    elif settings.base_url and base.scheme != "https":
        problems.append(f"{given['base_url'].called}: with HTTPS it begins with https://.")
    elif settings.base_url and settings.https_names and base.hostname not in settings.https_names:
        problems.append(f"{given['base_url'].called}: its name is none of {', '.join(settings.https_names)}.")
    if settings.base_url is None and settings.https_names and settings.https_port:
        settings = msgspec.structs.replace(settings, base_url=https_url(settings.https_names[0], settings.https_port))
    return settings if "host" in given else msgspec.structs.replace(settings, host="0.0.0.0")  # noqa: S104


def https_url(name: str, port: int) -> str:
    """Return the URL of a name by HTTPS."""
    return f"https://{name}" if port == HTTPS_PORT else f"https://{name}:{port}"


def _host_names(called: str, texts: list[str], problems: list[str]) -> list[str]:
    """Return names in the form that clients send in the handshake (RFC 6066, section 3)."""
    names = []
    for text in texts:
        try:
            names.append(hostname_of(text))
        except ValueError:
            problems.append(f"{called}: {text} is not a host name, such as api.example.com.")
    return names


def _pooler_problem(settings: Settings) -> str | None:
    """Return a sentence if the settings about the database contradict each other."""
    if settings.direct_database_url and not settings.database_url:
        return "direct_database_url: it needs database_url, the URL of the pooler."
    if settings.database_pooler == "transaction" and not settings.direct_database_url:
        return "database_pooler: transaction needs direct_database_url, the URL of PostgreSQL itself."
    return None


def _addresses(called: str, texts: list[str], problems: list[str]) -> list[str]:
    """Return IP addresses in the form that connections report."""
    addresses = []
    for text in texts:
        try:
            addresses.append(str(ip_address(text)))
        except ValueError:
            problems.append(f"{called}: {text} is not an IP address.")
    return addresses


def _networks(called: str, texts: list[str], problems: list[str]) -> list[str]:
    networks = []
    for text in texts:
        try:
            networks.append(str(parse_network(text)))
        except ValueError:
            problems.append(f"{called}: {text} is not a network, such as 10.1.0.0/16 or fd00::/8.")
    return networks


def _check_private_keys(called: str, text: str, problems: list[str]) -> None:
    from pilotis.kit import rs256

    try:
        rs256.keys_of_pem(text)
    except rs256.KeyFormatError as error:
        problems.append(f"{called}: {error}")


def _check_authorities(called: str, path: str, problems: list[str]) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except OSError as error:
        problems.append(f"{called}: {path} cannot be used as a PEM file of certificate authorities: {error.strerror}.")


def _check_schedule(called: str, seconds: list[float], problems: list[str]) -> None:
    if not (seconds and min(seconds) >= 0 and max(seconds) <= _MAX_GAP):
        problems.append(f"{called}: a list of seconds is expected, each from 0 to {_MAX_GAP}.")


def _check_smtp_url(called: str, url: str, problems: list[str]) -> None:
    try:
        parse_smtp_url(url)
    except ValueError as error:
        problems.append(f"{called}: {error}.")


def _check_sender(called: str, text: str, problems: list[str]) -> None:
    try:
        parse_sender(text)
    except ValueError as error:
        problems.append(f"{called}: {error}.")


_NORMALISED: Mapping[str, Callable[[str, list[str], list[str]], list[str]]] = {
    "trusted_proxies": _addresses,
    "https_names": _host_names,
    "outgoing_networks": _networks,
    "egress_networks": _networks,
}
"""Lists of texts that are stored in one form: each returns it, and adds a sentence for a wrong text to the problems."""
_CHECKS: Mapping[str, Callable[[str, Any, list[str]], None]] = {
    "webhook_schedule": _check_schedule,
    "outgoing_ca_file": _check_authorities,
    "oauth_rsa_private_key_pem": _check_private_keys,
    "smtp_url": _check_smtp_url,
    "mail_from": _check_sender,
    "mail_reply_to": _check_sender,
}
"""What else is wrong with the value of a setting: each adds a sentence to the problems."""
