"""The pages of members' accounts.

They use the public routes of the API alone, with one of the app's public keys: a page can do nothing that a page of the
app could not. Tokens of mailed links are in the fragment: opening a page uses nothing up.
"""

from __future__ import annotations

from urllib.parse import parse_qs
from uuid import UUID

from pilotis.account_pages.pages import PAGES, account_page
from pilotis.apps.service import Apps
from pilotis.http.api.endpoint import Endpoints, get
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import Reply
from pilotis.kit.errors import NotFoundError
from pilotis.kit.languages import LANGUAGES, preferred
from pilotis.oauth.social.service import SocialLogin


class AccountPages(Endpoints, tag="Pages"):
    """Sign-in, sign-up, second factors, forgotten passwords, mailed links, and the account."""

    def __init__(self, apps: Apps, social: SocialLogin, origin: str) -> None:
        """`origin` is the server's, from which the pages use a key."""
        self._apps = apps
        self._social = social
        self._origin = origin

    @get("/account/:app_id/:page", access=Access.OPEN, returns=str)
    async def page(self, call: Call, app_id: UUID, page: str) -> Reply:
        """Show a page, in the language of `?lang=` or of the browser."""
        if page not in PAGES:
            raise NotFoundError
        app = await self._apps.by_id(app_id)
        wanted = parse_qs(call.scope["query_string"].decode("latin-1")).get("lang", [""])[0]
        language = next((one for one in LANGUAGES if one == wanted), None)
        language = language or preferred(call.header(b"accept-language")) or "en"
        key = await self._apps.page_key(app_id, self._origin)
        vendors = await self._social.of_account_pages(app)
        return account_page(page, app, key, self._origin, language, vendors)
