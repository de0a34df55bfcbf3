"""The pages of members' accounts.

They use the public routes of the API alone, with one of the app's public keys: a page can do nothing that a page of the
app could not. Tokens of mailed links are in the fragment: opening a page uses nothing up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import parse_qs
from uuid import UUID

import msgspec

from pilotis.account_pages.pages import PAGES, PREVIEW, account_page
from pilotis.account_pages.service import AccountLogoNotFoundError, AccountLogos
from pilotis.account_pages.types import LogoQuery, PreviewQuery
from pilotis.apps.service import Apps
from pilotis.apps.types import AppAccountSettings
from pilotis.http.api.endpoint import Endpoints, delete, get, put
from pilotis.http.api.principals import Access, AppInfo
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted
from pilotis.http.replies.reply import Reply
from pilotis.kit.account_settings import Mode
from pilotis.kit.errors import NotFoundError, PayloadTooLargeError
from pilotis.kit.languages import LANGUAGES, Language, preferred
from pilotis.kit.logos import HEADERS, InvalidLogoError
from pilotis.oauth.social.service import SocialLogin


class AccountPages(Endpoints, tag="Pages"):
    """Sign-in, sign-up, second factors, forgotten passwords, mailed links, and the account."""

    def __init__(self, apps: Apps, social: SocialLogin, logos: AccountLogos, origin: str) -> None:
        """`origin` is the server's, from which the pages use a key."""
        self._apps = apps
        self._logos = logos
        self._social = social
        self._origin = origin

    @get("/account/:app_id/:page", access=Access.OPEN, returns=str)
    async def page(self, call: Call, app_id: UUID, page: str) -> Reply:
        """Show a page, in the language of `?lang=`, of the browser, or of the app."""
        if page not in PAGES:
            raise NotFoundError
        wanted = parse_qs(call.scope["query_string"].decode("latin-1")).get("lang", [""])[0]
        language = next((one for one in LANGUAGES if one == wanted), None)
        app = await self._apps.by_id(app_id)
        language = language or preferred(call.header(b"accept-language")) or app.accounts.default_language
        return await self._page(page, app, language)

    @get(f"/account/:app_id/{PREVIEW}", access=Access.OPEN, returns=str)
    async def preview(self, call: Call, app_id: UUID, query: PreviewQuery) -> Reply:
        """Show the sign-in page as a theme would make it, for a frame of the console: it looks and does nothing.

        The console gives it the texts by a message, so that no address brings a stranger's words here.
        """
        app = await self._apps.by_id(app_id)
        shown = {
            name: value
            for name, value in msgspec.structs.asdict(query).items()
            if name not in {"lang", "section", "shows"}
        }
        theme = msgspec.structs.replace(app.accounts.theme, **shown, texts={})
        accounts = msgspec.structs.replace(app.accounts, theme=theme)
        mode = query.shows if query.mode == "auto" else None
        return await self._page(PREVIEW, msgspec.structs.replace(app, accounts=accounts), query.lang, mode)

    @get(
        "/account/:app_id/logo",
        access=Access.OPEN,
        returns=bytes,
        media_type="*/*",
        errors=[AccountLogoNotFoundError],
    )
    async def logo(self, call: Call, app_id: UUID, query: LogoQuery) -> Reply:
        """Read the logo of the account pages, as WebP."""
        return Reply(await self._logos.image(app_id), headers=HEADERS, content_type=b"image/webp")

    async def _page(self, name: str, app: AppInfo, language: Language, mode: Mode | None = None) -> Reply:
        key = await self._apps.page_key(app.app_id, self._origin)
        vendors = await self._social.of_account_pages(app)
        return account_page(name, app, key, self._origin, language, vendors, mode)


class AccountLogoEndpoints(Endpoints, tag="Apps"):
    """The logos of account pages."""

    def __init__(self, logos: AccountLogos) -> None:
        self._logos = logos

    @put(
        "/v1/apps/:app_id/account-settings/logo",
        access=Access.APP_OWNER,
        errors=[InvalidLogoError, PayloadTooLargeError],
    )
    async def put(self, call: Call, app_id: UUID, body: AsyncIterator[bytes]) -> AppAccountSettings:
        """Replace the logo of the account pages by an image as PNG, JPEG, GIF or WebP, of at most 1 MB.

        The server encodes it again, with at most 512 pixels on each side.
        """
        return await self._logos.put(app_id, call.actor, body)

    @delete("/v1/apps/:app_id/account-settings/logo", access=Access.APP_OWNER, errors=[AccountLogoNotFoundError])
    async def delete(self, call: Call, app_id: UUID) -> Deleted:
        """Delete the logo of the account pages."""
        await self._logos.delete(app_id, call.actor)
        return Deleted("Logo deleted.", app_id)
