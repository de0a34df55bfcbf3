"""Settings: from flags, then `PILOTIS_*` variables, then a TOML file, then the defaults here.

`--port` and `PILOTIS_PORT` set `port`; `PILOTIS_LIMITS_ROW_BYTES` sets `row_bytes` of the table `[limits]`. A variable
that is empty counts as unset. The reference in `docs/configuration.md` is made from these types.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from pilotis.limits import Limits

PREFIX = "PILOTIS_"
FILE_NAME = "pilotis.toml"

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How one `pilotis` process runs. Everything else is in the database."""

    host: str = "127.0.0.1"
    """Address to listen on; `0.0.0.0` for every interface, and then set `base_url` as well."""
    port: Port = 8090
    """Port to listen on; 0 takes a free one."""
    data_dir: str = "pilotis-data"
    """Directory for the embedded database, files and keys; made with mode 0700 if it is not there."""
    database_url: str | None = None
    """URL of a PostgreSQL (15 or newer) to use in place of the embedded one."""
    postgres_binaries: str | None = None
    """Directory with `postgres` and `initdb` for the embedded database, in place of the ones that came along."""
    workers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    """Processes that answer requests."""
    base_url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^/\s?#]+$")] | None = None
    """Address under which clients reach this server, such as `https://api.example.com`; by default host and port, or
    this machine's own address where the host is every interface."""
    console_origin: Annotated[str, msgspec.Meta(pattern=r"^https?://[^/\s?#]+$")] | None = None
    """Origin of the console, the only one that may call console routes from a browser; by default `base_url`."""
    metrics_port: Port | None = None
    """Port of Prometheus' `/metrics`, on the same address; by default the port after `port`, 0 for none."""
    trusted_proxies: list[str] = []
    """Addresses of reverse proxies whose `X-Forwarded-For` is believed."""
    master_key: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-fA-F]{64}$")] | None = None
    """Master key as 64 hexadecimal digits; by default a file in the data directory. Never kept in the database."""
    previous_master_key: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-fA-F]{64}$")] | None = None
    """Another master key that is accepted as well, as 64 hexadecimal digits, while the master key is rotated."""
    pool_size: Annotated[int, msgspec.Meta(ge=2, le=500)] = 10
    """Database connections of each worker."""
    statement_seconds: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 5.0
    """Longest time that a request's statement may take."""
    blob_store: str | None = None
    """Where files' bytes are kept: a directory, or `s3://bucket/prefix?endpoint=…&region=…`, `gs://…`, `az://…`; by
    default `blobs` in the data directory."""
    s3_access_key: str | None = None
    """Access key of the S3 store; without the two keys clients cannot upload to it directly."""
    s3_secret_key: str | None = None
    """Secret key of the S3 store."""
    files_base_url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^/\s?#]+$")] | None = None
    """Address of a host name of its own under which files are served, such as `https://files.example.com`; by default
    `base_url`."""
    files_delivery: Literal["proxy", "redirect"] = "proxy"
    """Whether files are sent from here, or readers are redirected to the object store where it can sign URLs."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """Logs as JSON lines or as text for people; `auto` is text on a terminal."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level that is logged; requests are logged at `info`."""
    limits: Limits = Limits()
    """Limits of this server, as the table `[limits]`."""


class SettingsError(Exception):
    """One or more settings are wrong; `problems` has a sentence for each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load(flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None) -> Settings:
    """Return the settings; raises `SettingsError` with every problem at once.

    `flags` holds what was given on the command line. `file` is the TOML file; without it `pilotis.toml` in the
    working directory is read if it is there.
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


def known_names() -> dict[str, msgspec.structs.FieldInfo]:
    """Return every setting by name; limits as `limits.<name>`."""
    own = {field.name: field for field in msgspec.structs.fields(Settings) if field.name != "limits"}
    return own | {f"limits.{field.name}": field for field in msgspec.structs.fields(Limits)}


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.replace(".", "_").upper()


class _Given(NamedTuple):
    """A value, and what the person who gave it calls it."""

    called: str
    value: Any


def _from_flags(flags: Mapping[str, Any]) -> dict[str, _Given]:
    given = {name: value for name, value in flags.items() if value is not None}
    return {name: _Given(f"--{name.replace('_', '-')}", value) for name, value in given.items()}


def _from_environment(environment: Mapping[str, str]) -> dict[str, _Given]:
    names = {variable_of(name): name for name in known_names()}
    given: dict[str, _Given] = {}
    for variable, value in environment.items():
        if variable.startswith(PREFIX) and value:
            name = names.get(variable, variable)
            listed = [part.strip() for part in value.split(",") if part.strip()]
            given[name] = _Given(variable, listed if name == "trusted_proxies" else value)
    return given


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
    limits = values.pop("limits", {})
    if not isinstance(limits, dict):
        problems.append(f"{path}: limits must be a table.")
        limits = {}
    values |= {f"limits.{name}": value for name, value in limits.items()}
    return {name: _Given(f"{path}: {name}", value) for name, value in values.items()}


def _checked(given: Mapping[str, _Given], problems: list[str]) -> Settings:
    known = known_names()
    own: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for name, (called, value) in given.items():
        if name not in known:
            problems.append(f"{called} is not a setting.")
            continue
        try:
            checked = msgspec.convert(value, known[name].type, strict=not isinstance(value, str))
        except msgspec.ValidationError as error:
            problems.append(f"{called}: {error}.")
            continue
        if name == "trusted_proxies":
            checked = _addresses(called, checked, problems)
        group, _, limit = name.partition(".")
        if limit:
            limits[limit] = checked
        else:
            own[group] = checked
    return Settings(**own, limits=Limits(**limits))


def _addresses(called: str, texts: list[str], problems: list[str]) -> list[str]:
    """Return IP addresses in the form in which connections have them."""
    addresses = []
    for text in texts:
        try:
            addresses.append(str(ip_address(text)))
        except ValueError:
            problems.append(f"{called}: {text} is not an IP address.")
    return addresses
