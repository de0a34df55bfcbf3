"""The end-session endpoint."""

from __future__ import annotations

from collections.abc import Callable

from pilotis.apps.service import Apps
from pilotis.http.api.bodies import Raw
from pilotis.http.api.endpoint import Endpoints, get, post
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.replies.redirect import Redirect
from pilotis.http.replies.reply import Answer, Reply
from pilotis.oauth.flow.endpoints import Cookies, explained, known_app
from pilotis.oauth.flow.pages import logout_page, signed_out_page
from pilotis.oauth.flow.texts import language
from pilotis.oauth.https import Https
from pilotis.oauth.logout.service import Logout
from pilotis.oauth.parameters import Parameters, parse
from pilotis.oauth.tokens.endpoints import form_of


class LogoutPages(Endpoints, tag="Pages", error_styles={"/oauth/end-session": "page"}):
    """Pages that a browser visits to sign out."""

    def __init__(self, https: Https, apps: Apps, logout: Logout) -> None:
        self._https = https
        self._apps = apps
        self._logout = logout

    @get("/oauth/end-session", access=Access.OPEN, cors="none", origins="any")
    async def end_session(self, call: Call, cookies: Cookies) -> Answer | Reply:
        """Sign the member out (RP-Initiated Logout 1.0), after a confirmation page if the request might be forged."""
        return await self._end(call, lambda: parse(call.scope["query_string"]), cookies)

    @post("/oauth/end-session", access=Access.OPEN, cors="none", origins="any", needs_room=False)
    async def end_session_by_post(self, call: Call, body: Raw, cookies: Cookies) -> Answer | Reply:
        """Sign the member out by a form, or process the confirmation."""
        return await self._end(call, lambda: form_of(call, body), cookies)

    async def _end(self, call: Call, read: Callable[[], Parameters], cookies: dict[str, str]) -> Answer | Reply:
        tongue = language(call.header(b"accept-language"))

        async def work() -> Answer | Reply:
            self._https.check(call)
            parameters = read()
            asked = language(parameters.get("ui_locales") or call.header(b"accept-language"))
            step = await self._logout.end(parameters, cookies)
            app = await known_app(self._apps, step.app_id)
            if step.question is not None:
                return logout_page(step.question, parameters.values, step.client_name, step.location, app, asked)
            if step.location is None:
                return signed_out_page(app, asked, step.cookies)
            return Redirect(location=step.location, cookies=step.cookies)

        return await explained(call, None, tongue, work)
