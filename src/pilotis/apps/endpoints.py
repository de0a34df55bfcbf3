"""The console routes of apps, their settings and keys, and the app settings of the public interface."""

from __future__ import annotations

from uuid import UUID

from pilotis.apps.keyring import KeyNotFoundError, Keyring
from pilotis.apps.service import AppNotDeletedError, AppNotFoundError, Apps
from pilotis.apps.settings import AppSettings
from pilotis.apps.theme import LowContrastError
from pilotis.apps.types import (
    AccountSettingsChange,
    App,
    AppAccountSettings,
    AppChange,
    AppLimits,
    AuthSettings,
    CreatedApp,
    LimitChange,
    NewAppName,
    NewPublicKey,
    NewSecretKey,
    PublicAccountSettings,
    PublicKey,
    PublicKeyChange,
    SecretKey,
    ShownSecretKey,
)
from pilotis.http.api.endpoint import Endpoints, delete, get, patch, post, put
from pilotis.http.api.principals import Access, ReauthenticationRequiredError, Role, RoleRequiredError
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted, ItemPage, Paging
from pilotis.members.gate.service import SecondFactorEnrolmentRequiredError
from pilotis.users.service import AppCreationNotAllowedError


class AppEndpoints(Endpoints, tag="Apps"):
    """Apps, for console users."""

    def __init__(self, apps: Apps) -> None:
        self._apps = apps

    @post(
        "/v1/apps",
        access=Access.APPS,
        status=201,
        creates="app_id",
        errors=[AppCreationNotAllowedError, SecondFactorEnrolmentRequiredError, ReauthenticationRequiredError],
    )
    async def create(self, call: Call, body: NewAppName) -> CreatedApp:
        """Create an app with its first public and secret key. The secret key is shown only once.

        A console user who was invited only as a viewer may not, unless the operator allows it.
        """
        return await self._apps.create(body.name, call.user.user_id, call.actor)

    @get("/v1/apps", access=Access.CONSOLE)
    async def page(self, call: Call, query: Paging) -> ItemPage[App]:
        """List the apps that the console user has a role on.

        An owner also sees its deleted apps, with `deleted_at`, for the 7 days in which they can be restored.
        """
        return await self._apps.page(call.user, query)

    @get("/v1/apps/:app_id", access=Access.APP_VIEWER)
    async def read(self, call: Call, app_id: UUID) -> App:
        """Read an app."""
        return await self._apps.read(call.principal)

    @patch("/v1/apps/:app_id", access=Access.APP_EDITOR)
    async def update(self, call: Call, app_id: UUID, body: AppChange) -> App:
        """Change an app's name, or lock its schema.

        An editor may change the name; `schema_locked` takes an owner. Where the schema is locked, tables and columns
        are changed with a secret key or by a console user with the role editor, no longer by the public key alone.
        """
        return await self._apps.update(call.principal, call.actor, body)

    @delete("/v1/apps/:app_id", access=Access.APP_OWNER_FRESH, errors=[ReauthenticationRequiredError])
    async def delete(self, call: Call, app_id: UUID) -> Deleted:
        """Delete an app.

        Its keys and its members' tokens stop working at once. For 7 days an owner can restore it completely; then it is
        deleted permanently.
        """
        await self._apps.delete(app_id, call.actor)
        return Deleted("App deleted. It can be restored for 7 days.", app_id)

    @post(
        "/v1/apps/:app_id/restore",
        access=Access.APPS,
        errors=[
            AppNotFoundError,
            RoleRequiredError,
            AppNotDeletedError,
            AppCreationNotAllowedError,
            SecondFactorEnrolmentRequiredError,
            ReauthenticationRequiredError,
        ],
    )
    async def restore(self, call: Call, app_id: UUID) -> App:
        """Restore a deleted app within 7 days. Only its owners may."""
        return await self._apps.restore(app_id, call.user, call.actor)


class AppSettingsEndpoints(Endpoints, tag="App settings"):
    """How an app's members sign in, and the limits that apply to it."""

    def __init__(self, settings: AppSettings) -> None:
        self._settings = settings

    @get("/v1/public/auth-settings", access=Access.PUBLIC_KEY)
    async def public_auth(self, call: Call) -> AuthSettings:
        """Read how members of the app may sign in."""
        return self._settings.auth(call.app)

    @get("/v1/apps/:app_id/auth-settings", access=Access.APP_VIEWER)
    async def auth(self, call: Call, app_id: UUID) -> AuthSettings:
        """Read how members of the app may sign in."""
        return self._settings.auth(call.app)

    @put("/v1/apps/:app_id/auth-settings", access=Access.APP_EDITOR)
    async def change_auth(self, call: Call, app_id: UUID, body: AuthSettings) -> AuthSettings:
        """Set how members of the app may sign in."""
        return await self._settings.change_auth(app_id, call.actor, body)

    @get("/v1/public/account-settings", access=Access.PUBLIC_KEY)
    async def public_accounts(self, call: Call) -> PublicAccountSettings:
        """Read what a page must know that signs members in or up."""
        return self._settings.public_accounts(call.app)

    @get("/v1/apps/:app_id/account-settings", access=Access.APP_VIEWER)
    async def accounts(self, call: Call, app_id: UUID) -> AppAccountSettings:
        """Read how members make accounts and prove who they are."""
        return await self._settings.accounts(call.app)

    @patch(
        "/v1/apps/:app_id/account-settings",
        access=Access.APP_OWNER,
        errors=[SecondFactorEnrolmentRequiredError, LowContrastError],
    )
    async def change_accounts(self, call: Call, app_id: UUID, body: AccountSettingsChange) -> AppAccountSettings:
        """Change how members make accounts and prove who they are; absent settings stay as they are.

        Sessions that have begun go on as they are; a setting that requires a proof applies to the next sign-in.
        """
        if body.team_second_factor is True and call.user.level < 2:
            raise SecondFactorEnrolmentRequiredError("Sign in with a second factor of your own first.")
        return await self._settings.change_accounts(app_id, call.actor, body)

    @get("/v1/apps/:app_id/limits", access=Access.APP_VIEWER)
    async def limits(self, call: Call, app_id: UUID) -> AppLimits:
        """Read the limits that apply to the app, each with the server's."""
        return await self._settings.limits(app_id)

    @patch("/v1/apps/:app_id/limits", access=Access.APP_EDITOR)
    async def change_limits(self, call: Call, app_id: UUID, body: LimitChange) -> AppLimits:
        """Set stricter limits for the app than the server's; null removes one."""
        return await self._settings.change_limits(app_id, call.actor, body)


class KeyEndpoints(Endpoints, tag="Keys"):
    """An app's public and secret keys."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    @post("/v1/apps/:app_id/keys/public", access=Access.APP_EDITOR, status=201, creates="key_id", again="public_key")
    async def create_public(self, call: Call, app_id: UUID, body: NewPublicKey) -> PublicKey:
        """Create a public key, optionally restricted to pages of some origins."""
        return await self._keyring.create_public(app_id, call.actor, body, UUID(call.new_id()))

    async def public_key(self, call: Call, app_id: UUID, key_id: UUID) -> PublicKey:
        """Return an existing public key."""
        return await self._keyring.public_key(app_id, key_id)

    @get("/v1/apps/:app_id/keys/public", access=Access.APP_VIEWER)
    async def public(self, call: Call, app_id: UUID, query: Paging) -> ItemPage[PublicKey]:
        """List the app's public keys."""
        return await self._keyring.public(call.app, query)

    @patch("/v1/apps/:app_id/keys/public/:key_id", access=Access.APP_EDITOR, errors=[KeyNotFoundError])
    async def change_public(self, call: Call, app_id: UUID, key_id: UUID, body: PublicKeyChange) -> PublicKey:
        """Change a public key's name or the origins it may be used from."""
        return await self._keyring.change_public(app_id, call.actor, key_id, body)

    @delete("/v1/apps/:app_id/keys/public/:key_id", access=Access.APP_EDITOR, errors=[KeyNotFoundError])
    async def revoke_public(self, call: Call, app_id: UUID, key_id: UUID) -> Deleted:
        """Revoke a public key. It stops working immediately."""
        await self._keyring.revoke_public(app_id, call.actor, key_id)
        return Deleted("Public key revoked.", key_id)

    @post(
        "/v1/apps/:app_id/keys/secret",
        access=Access.APP_EDITOR_FRESH,
        status=201,
        creates="key_id",
        errors=[ReauthenticationRequiredError, RoleRequiredError],
    )
    async def create_secret(self, call: Call, app_id: UUID, body: NewSecretKey) -> ShownSecretKey:
        """Create a secret key that acts for the console user on the app. It is shown only once.

        A key with the role viewer has a viewer's rights, whatever its user's role. Only an owner creates one that may
        sign members in.
        """
        if body.may_sign_in_members and not call.principal.may(Role.OWNER):
            raise RoleRequiredError
        return await self._keyring.create_secret(
            app_id,
            call.actor,
            call.user.user_id,
            body.name,
            body.role,
            may_sign_in_members=body.may_sign_in_members,
        )

    @get("/v1/apps/:app_id/keys/secret", access=Access.APP_VIEWER)
    async def secret(self, call: Call, app_id: UUID, query: Paging) -> ItemPage[SecretKey]:
        """List the app's secret keys, each with its first characters."""
        return await self._keyring.secret(call.app, query)

    @delete("/v1/apps/:app_id/keys/secret/:key_id", access=Access.APP_EDITOR, errors=[KeyNotFoundError])
    async def revoke_secret(self, call: Call, app_id: UUID, key_id: UUID) -> Deleted:
        """Revoke a secret key. It stops working immediately."""
        await self._keyring.revoke_secret(app_id, call.actor, key_id)
        return Deleted("Secret key revoked.", key_id)
