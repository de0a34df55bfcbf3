"""The pages that mailed links lead to. The token is in the fragment: opening a link uses nothing up."""

from __future__ import annotations

from html import escape
from importlib import resources
from uuid import UUID

from pilotis.accounts.errors import TokenExpiredError
from pilotis.accounts.service import Proofs
from pilotis.accounts.types import EmailVerification, MailedToken, PasswordReset
from pilotis.apps.service import Apps
from pilotis.http.api.endpoint import Endpoints, get, post
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.reference.page import page
from pilotis.http.replies.reply import Reply
from pilotis.kit.errors import RateLimitedError
from pilotis.members.service import NoPasswordError, WrongPasswordError
from pilotis.members.types import Confirmation

_FOLDER = resources.files("pilotis.accounts")
_ACCOUNT = "/account/:app_id"


class AccountPageEndpoints(Endpoints, tag="Pages"):
    """Where members verify an address or choose a new password."""

    def __init__(self, proofs: Proofs, apps: Apps) -> None:
        self._proofs = proofs
        self._apps = apps

    @get(f"{_ACCOUNT}/verify", access=Access.OPEN, returns=str)
    async def verify_page(self, _call: Call, app_id: UUID) -> Reply:
        """Show the form that verifies an address."""
        return await self._page(app_id, "verify.html")

    @get(f"{_ACCOUNT}/reset", access=Access.OPEN, returns=str)
    async def reset_page(self, _call: Call, app_id: UUID) -> Reply:
        """Show the form that sets a new password."""
        return await self._page(app_id, "reset.html")

    @post(
        f"{_ACCOUNT}/verify",
        access=Access.OPEN,
        needs_room=False,
        errors=[TokenExpiredError, WrongPasswordError, NoPasswordError, RateLimitedError],
    )
    async def verify(self, call: Call, app_id: UUID, body: EmailVerification) -> Confirmation:
        """Verify an address."""
        await self._proofs.verify(await self._apps.by_id(app_id), call.client, body)
        return Confirmation("Your address is verified.")

    @post(f"{_ACCOUNT}/deny", access=Access.OPEN, needs_room=False, errors=[TokenExpiredError])
    async def deny(self, _call: Call, app_id: UUID, body: MailedToken) -> Confirmation:
        """Say that one did not sign up."""
        await self._proofs.deny(await self._apps.by_id(app_id), body.token)
        return Confirmation("The account does not get your address.")

    @post(f"{_ACCOUNT}/reset", access=Access.OPEN, needs_room=False, errors=[TokenExpiredError])
    async def reset(self, call: Call, app_id: UUID, body: PasswordReset) -> Confirmation:
        """Set a new password."""
        await self._proofs.reset(await self._apps.by_id(app_id), call.client, body)
        return Confirmation("Your password is changed. Sign in with the new one.")

    async def _page(self, app_id: UUID, name: str) -> Reply:
        app = await self._apps.by_id(app_id)
        body = (_FOLDER / name).read_text("utf-8")
        for variable, value in (
            ("app", escape(app.name)),
            ("password_min_length", str(app.limits.password_min_length)),
            ("password_max_length", str(app.limits.password_max_length)),
        ):
            body = body.replace(f"{{{variable}}}", value)
        return page(app.name, body, script=(_FOLDER / "account.js").read_text("utf-8"), has_bar=False)
