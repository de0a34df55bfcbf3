"""The example of the route of codes that give a sign-in to a page of the app."""

from __future__ import annotations

from pilotis.http.api.example import Example

EXAMPLES = [
    Example(
        route="POST /v1/public/app-members/me/sign-in-code",
        operation="createSignInCode",
        body={
            "redirect_uri": "http://localhost:5173/signed-in",
            "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
            "state": "xyz",
        },
        answer={"redirect_to": "http://localhost:5173/signed-in?code=…", "expires_in": 60},
    ),
]
