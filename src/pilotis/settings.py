"""Settings: from flags, then `PILOTIS_*` variables, then a TOML file, then the defaults here.

`PILOTIS_PORT` sets `port`; `PILOTIS_LIMITS_ROW_BYTES` sets `row_bytes` of the table `[limits]`. The reference in
`docs/configuration.md` is made from these types.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from pilotis.limits import Limits

PREFIX = "PILOTIS_"
FILE_NAME = "pilotis.toml"

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How one `pilotis` process runs. Everything else is in the database."""

    host: str = "127.0.0.1"
    """Address to listen on; `0.0.0.0` for every interface."""
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
    """Address under which clients reach this server, such as `https://api.example.com`; by default host and port."""
    console_origin: Annotated[str, msgspec.Meta(pattern=r"^https?://[^/\s?#]+$")] | None = None
    """Origin of the console, the only one that may call console routes from a browser; by default `base_url`."""
    metrics_port: Port | None = None
    """Port of Prometheus' `/metrics`, on the same address; by default the port after `port`, 0 for none."""
    trusted_proxies: list[str] = []
    """Addresses of reverse proxies whose `X-Forwarded-For` is believed."""
    master_key: str | None = None
    """Master key as 64 hexadecimal digits; by default a file in the data directory. Never kept in the database."""
    pool_size: Annotated[int, msgspec.Meta(ge=2, le=500)] = 10
    """Database connections of each worker."""
    statement_seconds: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 5.0
    """Longest time that a request's statement may take."""
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
    merged: dict[str, tuple[str, Any]] = {}
    for source, values in (
        (str(file or FILE_NAME), _from_file(file, problems)),
        ("environment", _from_environment(environment, problems)),
        ("command line", {name: value for name, value in flags.items() if value is not None}),
    ):
        for name, value in values.items():
            merged[name] = (source, value)
    settings = _checked(merged, problems)
    if problems:
        raise SettingsError(problems)
    return settings


def _from_file(file: Path | None, problems: list[str]) -> dict[str, Any]:
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
    return values | {f"limits.{name}": value for name, value in limits.items()}


def _from_environment(environment: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, value in environment.items():
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name.startswith("limits_"):
            name = f"limits.{name.removeprefix('limits_')}"
        if name not in known_names():
            problems.append(f"{variable} is not a setting.")
        elif name == "trusted_proxies":
            values[name] = [part.strip() for part in value.split(",") if part.strip()]
        else:
            values[name] = value
    return values


def known_names() -> dict[str, msgspec.structs.FieldInfo]:
    """Return every setting by name; limits as `limits.<name>`."""
    own = {field.name: field for field in msgspec.structs.fields(Settings) if field.name != "limits"}
    return own | {f"limits.{field.name}": field for field in msgspec.structs.fields(Limits)}


def _checked(merged: Mapping[str, tuple[str, Any]], problems: list[str]) -> Settings:
    known = known_names()
    own: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for name, (source, value) in merged.items():
        if name not in known:
            problems.append(f"{name} is not a setting ({source}).")
            continue
        try:
            checked = msgspec.convert(value, known[name].type, strict=not isinstance(value, str))
        except msgspec.ValidationError as error:
            problems.append(f"{name}: {error} ({source}).")
            continue
        group, _, limit = name.partition(".")
        if limit:
            limits[limit] = checked
        else:
            own[group] = checked
    return Settings(**own, limits=Limits(**limits))
