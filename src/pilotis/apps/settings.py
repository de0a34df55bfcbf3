"""An app's settings: how its members sign in, and the limits that apply to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.apps import store
from pilotis.apps.service import AppNotFoundError, Apps
from pilotis.apps.store import LiveApp
from pilotis.apps.theme import shown_theme, stored_theme
from pilotis.apps.types import (
    AccountHooks,
    AccountSettingsChange,
    AccountTheme,
    AccountUrls,
    AppAccountSettings,
    AppChallenge,
    AppLimits,
    AuthSettings,
    ChallengeChange,
    Limit,
    PublicAccountSettings,
    PublicChallenge,
    SignInMethods,
    SignUpField,
    SignUpRow,
)
from pilotis.db.pool import Database, TenantDatabase
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.kit import account_settings, json
from pilotis.kit.account_settings import SIGN_UP_METHODS, SecondFactorName, logo_path, pages_path
from pilotis.kit.errors import Detail, ValidationError, invalid
from pilotis.limits import PER_APP, Limits, contradiction, limits_in_force, stricter, unit_of, zero_is_unlimited
from pilotis.security.audit.service import record
from pilotis.security.encryption.secrets import AppSecrets
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose

CHALLENGE_SECRET = "challenge"  # noqa: S105 - a name
"""The place of the secret of a challenge's vendor."""
_ON_SIGN_UP_BYTES = 16 * 1024
CheckRows = Callable[
    [Connection, UUID, Sequence[account_settings.SignUpRow]],
    Awaitable[tuple[tuple[account_settings.SignUpRow, ...], tuple[account_settings.SignUpField, ...]]],
]
"""Returns rows with the ids of their tables, and what they take from sign-ups; raises a 400 error."""


PageFault = Callable[[UUID, str], Awaitable[str | None]]
"""Returns why mails of an app must not lead to a page, a sentence; None if they may."""


class AppSettings:
    """Reads and changes the settings of an app."""

    def __init__(self, database: Database, apps: Apps, secrets: Secrets, limits: Limits, base_url: str) -> None:
        self._database = database
        self._base_url = base_url
        self._apps = apps
        self._secrets = secrets
        self._limits = limits
        self._is_function: Callable[[UUID, UUID], Awaitable[bool]] | None = None
        self._check_rows: CheckRows | None = None
        self._page_fault: PageFault | None = None

    def attach(self, is_function: Callable[[UUID, UUID], Awaitable[bool]]) -> None:
        """Set what tells whether an app has a function."""
        self._is_function = is_function

    def attach_pages(self, fault: PageFault) -> None:
        """Set what tells whether mails of an app may lead to a page."""
        self._page_fault = fault

    def attach_rows(self, check: CheckRows) -> None:
        """Set what checks the rows that are made with members."""
        self._check_rows = check

    async def stored(self, connection: Connection | TenantDatabase, app_id: UUID) -> account_settings.AccountSettings:
        """Return an app's account settings as they are stored; the defaults for a deleted app."""
        row = await store.read_app(connection, app_id)
        if row is None:
            return account_settings.DEFAULTS
        return msgspec.json.decode(row.account_settings, type=account_settings.AccountSettings)

    def auth(self, app: AppInfo) -> AuthSettings:
        """Return how an app's members may sign in."""
        return AuthSettings(app.allow_id_password_login, app.allow_guest_login, app.enabled_oauth_providers)

    async def change_auth(self, app_id: UUID, actor: Actor, settings: AuthSettings) -> AuthSettings:
        """Replace the app's auth settings and return them.

        Which providers are enabled follows from those that are set up for social login: another list is an error.
        """
        async with self._apps.change(app_id) as connection:
            row = await store.update_auth_settings(
                connection, app_id, settings.allow_id_password_login, settings.allow_guest_login
            )
            enabled = list(row.enabled_oauth_providers)
            if sorted(settings.enabled_oauth_providers) != sorted(enabled):
                raise invalid(
                    "enabled_oauth_providers",
                    f"Social login is set up at oauth/social/:provider. Enabled there: {', '.join(enabled) or 'none'}.",
                )
            settings = msgspec.structs.replace(settings, enabled_oauth_providers=enabled)
            await record(connection, app_id, actor, "auth_settings.update", app_id, **msgspec.structs.asdict(settings))
        return settings

    async def accounts(self, app: AppInfo) -> AppAccountSettings:
        """Return how an app's members make accounts and prove who they are."""
        secret = await store.challenge_secret(self._database.of(app.app_id), app.app_id)
        return self._app_accounts(
            app.app_id, app.accounts, has_passwords=app.allow_id_password_login, has_secret=secret is not None
        )

    async def challenge_secret(self, app_id: UUID) -> str | None:
        """Return what proves an app to the vendor of its challenges; None if it is not set."""
        stored = await store.challenge_secret(self._database.of(app_id), app_id)
        if stored is None:
            return None
        secrets = await self._secrets.app(app_id)
        return secrets.decrypt(Purpose.CHALLENGE_SECRET, CHALLENGE_SECRET, stored).decode()

    def public_accounts(self, app: AppInfo) -> PublicAccountSettings:
        """Return what a page that signs members in must know."""
        return PublicAccountSettings(
            **self._account_fields(app.app_id, app.accounts, has_passwords=app.allow_id_password_login),
            challenge=PublicChallenge(
                provider=app.accounts.challenge.provider, site_key=app.accounts.challenge.site_key
            ),
            pages_url=self._base_url + pages_path(app.app_id),
            guests=app.allow_guest_login,
            providers=app.enabled_oauth_providers,
            password_min_length=app.limits.password_min_length,
            password_max_length=app.limits.password_max_length,
        )

    async def change_accounts(self, app_id: UUID, actor: Actor, change: AccountSettingsChange) -> AppAccountSettings:
        """Change the given account settings of an app, and return all."""
        methods, hooks = _given(change.methods), _given(change.hooks)
        given = {
            name: value
            for name, value in _given(change).items()
            if name not in {"methods", "hooks", "challenge", "urls"}
        }
        if isinstance(theme := given.get("theme"), AccountTheme):
            given["theme"] = stored_theme(theme, None)
        if "second_factors" in given:
            given["second_factors"] = _second_factors(given["second_factors"])
        if "sign_up_methods" in given:
            given["sign_up_methods"] = tuple(one for one in SIGN_UP_METHODS if one in given["sign_up_methods"])
        rows: list[SignUpRow] | None = given.pop("on_sign_up", None)
        for name, function_id in hooks.items():
            if function_id is not None and not (self._is_function and await self._is_function(app_id, function_id)):
                raise invalid(f"hooks.{name}", f"hooks.{name}: the app has no such function.", "NO_SUCH_FUNCTION")
        urls = await self._checked_urls(app_id, change)
        password: bool | None = methods.pop("password", None)
        secrets = None if change.challenge.secret is msgspec.UNSET else await self._secrets.app(app_id)
        async with self._apps.change(app_id) as connection:
            row = await store.read_app(connection, app_id)
            if row is None:
                raise AppNotFoundError
            stored = msgspec.json.decode(row.account_settings, type=account_settings.AccountSettings)
            if "theme" in given:
                given["theme"] = msgspec.structs.replace(given["theme"], logo=stored.theme.logo)
            stored = msgspec.structs.replace(stored, **given, **methods)
            stored = msgspec.structs.replace(stored, hooks=msgspec.structs.replace(stored.hooks, **hooks))
            stored = msgspec.structs.replace(stored, urls=msgspec.structs.replace(stored.urls, **urls))
            if rows is not None:
                stored = await self._with_rows(connection, app_id, stored, rows)
            if fault := account_settings.passkey_fault(stored.passkey_domain, stored.allowed_origins):
                raise invalid(*fault)
            stored, has_secret = await self._challenged(connection, app_id, stored, change.challenge, secrets)
            row = await store.update_account_settings(connection, app_id, json.encode(stored).decode(), password)
            settings = self._app_accounts(
                app_id, stored, has_passwords=row.allow_id_password_login, has_secret=has_secret
            )
            changes = msgspec.to_builtins(change)
            if secrets is not None:
                changes["challenge"] |= {"secret": None, "has_secret": True}
            await record(connection, app_id, actor, "account_settings.update", app_id, **changes)
        return settings

    async def _checked_urls(self, app_id: UUID, change: AccountSettingsChange) -> dict[str, str | None]:
        """Return the given pages; raises a 400 error for one that mails must not lead to."""
        urls: dict[str, str | None] = _given(change.urls)
        for name, url in urls.items():
            fault = None if url is None or self._page_fault is None else await self._page_fault(app_id, url)
            if fault is not None:
                raise invalid(f"urls.{name}", f"urls.{name}: {fault}", "INVALID_REDIRECT_URI")
        return urls

    async def _challenged(
        self,
        connection: Connection,
        app_id: UUID,
        stored: account_settings.AccountSettings,
        change: ChallengeChange,
        secrets: AppSecrets | None,
    ) -> tuple[account_settings.AccountSettings, bool]:
        """Return the settings with a change of the challenge, whose secret is stored, and whether there is a secret."""
        has_secret = await store.challenge_secret(connection, app_id) is not None
        if change == ChallengeChange():
            return stored, has_secret
        stored = _with_challenge(stored, change, has_secret=has_secret)
        if stored.challenge.provider == "proof_of_work":
            await store.delete_challenge_secret(connection, app_id)
            return stored, False
        if secrets is not None:
            secret = secrets.encrypt(Purpose.CHALLENGE_SECRET, CHALLENGE_SECRET, str(change.secret).encode())
            await store.put_challenge_secret(connection, app_id, secret)
        return stored, True

    async def _with_rows(
        self,
        connection: Connection,
        app_id: UUID,
        stored: account_settings.AccountSettings,
        rows: Sequence[SignUpRow],
    ) -> account_settings.AccountSettings:
        assert self._check_rows is not None
        asked = [
            account_settings.SignUpRow(table_id=app_id, table=row.table, data=row.data, guests=row.guests)
            for row in rows
        ]
        on_sign_up, fields = await self._check_rows(connection, app_id, asked)
        if len(json.encode(on_sign_up)) > _ON_SIGN_UP_BYTES:
            raise invalid("on_sign_up", f"on_sign_up has at most {_ON_SIGN_UP_BYTES} bytes.", "TOO_LARGE")
        return msgspec.structs.replace(stored, on_sign_up=on_sign_up, sign_up_fields=fields)

    async def set_logo(self, connection: Connection, app_id: UUID, version: str | None) -> AppAccountSettings:
        """Store the version of the account pages' logo, in a transaction that changes the app; return all settings."""
        row = await store.read_app(connection, app_id)
        if row is None:
            raise AppNotFoundError
        stored = msgspec.json.decode(row.account_settings, type=account_settings.AccountSettings)
        stored = msgspec.structs.replace(stored, theme=msgspec.structs.replace(stored.theme, logo=version))
        row = await store.update_account_settings(connection, app_id, json.encode(stored).decode(), None)
        has_secret = await store.challenge_secret(connection, app_id) is not None
        return self._app_accounts(app_id, stored, has_passwords=row.allow_id_password_login, has_secret=has_secret)

    async def limits(self, app_id: UUID) -> AppLimits:
        """Return the limits that apply to an app."""
        row = await store.read_app(self._database.of(app_id), app_id)
        if row is None:
            raise AppNotFoundError
        return self._app_limits(row)

    async def change_limits(self, app_id: UUID, actor: Actor, change: msgspec.Struct) -> AppLimits:
        """Set or remove an app's own limits, and return those that apply. `change` is a `LimitChange`."""
        given = _given(change)
        own = {name: value for name, value in given.items() if value is not None}
        self._require_stricter(own)
        async with self._apps.change(app_id) as connection:
            row = await store.update_limits(
                connection, app_id, json.encode(own).decode(), [name for name in given if name not in own]
            )
            if wrong := contradiction(limits_in_force(self._limits, row.plan_limits, row.limits)):
                raise invalid(*wrong)
            await record(connection, app_id, actor, "limits.update", app_id, **given)
        return self._app_limits(row)

    def _require_stricter(self, own: dict[str, int]) -> None:
        """Raise a validation error that names every limit less strict than the server's."""
        details = []
        for name, value in own.items():
            server = getattr(self._limits, name)
            if stricter(name, server, value) != value:
                message = f"{name}: the server's limit is {server}; an app's limit may only be stricter."
                details.append(Detail(name, "BEYOND_SERVER_LIMIT", message))
        if details:
            raise ValidationError(details[0].message, details=details)

    def _app_limits(self, row: LiveApp) -> AppLimits:
        own = _own(row)
        plan: dict[str, int] = json.decode(row.plan_limits.encode())
        server = msgspec.structs.asdict(self._limits)
        in_force = msgspec.structs.asdict(limits_in_force(self._limits, row.plan_limits, row.limits))
        return AppLimits(
            {
                name: Limit(
                    value=value,
                    server_value=server[name],
                    plan_value=plan.get(name),
                    is_own=name in own and name in PER_APP,
                    is_settable=name in PER_APP,
                    unit=unit_of(name),
                    zero_is_unlimited=zero_is_unlimited(name),
                )
                for name, value in in_force.items()
            }
        )

    def _app_accounts(
        self, app_id: UUID, stored: account_settings.AccountSettings, *, has_passwords: bool, has_secret: bool
    ) -> AppAccountSettings:
        hooks = AccountHooks(**msgspec.structs.asdict(stored.hooks))
        return AppAccountSettings(
            **self._account_fields(app_id, stored, has_passwords=has_passwords),
            urls=AccountUrls(**msgspec.structs.asdict(stored.urls)),
            hooks=hooks,
            challenge=AppChallenge(
                provider=stored.challenge.provider,
                site_key=stored.challenge.site_key,
                has_secret=has_secret,
                open_when_unreachable=stored.challenge.open_when_unreachable,
            ),
            impersonation=stored.impersonation,
            team_second_factor=stored.team_second_factor,
            on_sign_up=[SignUpRow(table=row.table, data=row.data, guests=row.guests) for row in stored.on_sign_up],
        )

    def _account_fields(
        self, app_id: UUID, stored: account_settings.AccountSettings, *, has_passwords: bool
    ) -> dict[str, Any]:
        return {
            "sign_up": stored.sign_up,
            "sign_up_methods": list(stored.sign_up_methods),
            "login_id_form": stored.login_id_form,
            "email_verification": stored.email_verification,
            "second_factor": stored.second_factor,
            "second_factors": list(stored.second_factors),
            "passkey_domain": stored.passkey_domain,
            "allowed_origins": list(stored.allowed_origins),
            "theme": shown_theme(stored.theme),
            "logo_url": None if stored.theme.logo is None else self._base_url + logo_path(app_id, stored.theme.logo),
            "challenge_on": list(stored.challenge_on),
            "default_language": stored.default_language,
            "password_check": stored.password_check,
            "on_member_delete": stored.on_member_delete,
            "deletion_grace_days": stored.deletion_grace_days,
            "sign_up_fields": [SignUpField(**msgspec.structs.asdict(one)) for one in stored.sign_up_fields],
            "methods": SignInMethods(
                password=has_passwords,
                email_code=stored.email_code,
                email_link=stored.email_link,
                passkey=stored.passkey,
            ),
        }


def _given(change: msgspec.Struct) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(change).items() if value is not msgspec.UNSET}


def _with_challenge(
    stored: account_settings.AccountSettings, change: ChallengeChange, *, has_secret: bool
) -> account_settings.AccountSettings:
    """Return the settings with another challenge; raises a 400 error for a vendor without a key.

    Another vendor's keys mean nothing to the new one, and it must not be told the secret.
    """
    given = {name: value for name, value in _given(change).items() if name != "secret"}
    challenge = msgspec.structs.replace(stored.challenge, **given)
    is_same = challenge.provider == stored.challenge.provider
    if challenge.provider == "proof_of_work":
        if change.site_key is not msgspec.UNSET or change.secret is not msgspec.UNSET:
            raise invalid("challenge.provider", "challenge.provider: a vendor is expected beside site_key and secret.")
        return msgspec.structs.replace(stored, challenge=account_settings.Challenge())
    if change.site_key is msgspec.UNSET and not (is_same and challenge.site_key is not None):
        raise invalid("challenge.site_key", "challenge.site_key: the vendor's key for pages is expected.")
    if change.secret is msgspec.UNSET and not (is_same and has_secret):
        raise invalid("challenge.secret", "challenge.secret: the vendor's secret is expected.")
    return msgspec.structs.replace(stored, challenge=challenge)


def _second_factors(names: Sequence[SecondFactorName]) -> tuple[SecondFactorName, ...]:
    """Return each factor once; raises a 400 error for recovery codes without the app that they stand in for."""
    if "recovery_code" in names and "totp" not in names:
        raise invalid("second_factors", "second_factors: recovery_code stands in for totp.", "CONTRADICTION")
    return tuple(dict.fromkeys(names))


def _own(row: LiveApp) -> dict[str, int]:
    own: dict[str, int] = json.decode(row.limits.encode())
    return own
