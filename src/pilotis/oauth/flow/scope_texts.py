"""The texts about the built-in scopes for members, in English and Korean; an app's scopes have their own. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

LANGUAGES = ("en", "ko")


class ScopeText(NamedTuple):
    """The title and description of a scope."""

    title: str
    description: str = ""


BUILT_IN: Mapping[str, Mapping[str, ScopeText]] = {
    "openid": {
        "en": ScopeText("Know that it is you", "An identifier that stays the same each time you sign in"),
        "ko": ScopeText("본인 확인", "로그인할 때마다 같은 식별자를 전달합니다"),
    },
    "profile": {
        "en": ScopeText("See your profile", "Your nickname and picture"),
        "ko": ScopeText("프로필 보기", "닉네임과 사진"),
    },
    "email": {
        "en": ScopeText("See your e-mail address"),
        "ko": ScopeText("이메일 주소 보기"),
    },
    "address": {
        "en": ScopeText("See your postal address"),
        "ko": ScopeText("주소 보기"),
    },
    "phone": {
        "en": ScopeText("See your phone number"),
        "ko": ScopeText("전화번호 보기"),
    },
    "offline_access": {
        "en": ScopeText("Stay connected", "Also while you are not using it, until you disconnect it"),
        "ko": ScopeText("연결 유지", "연결을 끊을 때까지, 사용하지 않는 동안에도 접근합니다"),
    },
}


def language(wanted: str | None) -> str:
    """Return the first supported language of a list such as `Accept-Language` or `ui_locales`."""
    for part in (wanted or "").replace(",", " ").split():
        tag = part.partition(";")[0].partition("-")[0].lower()
        if tag in LANGUAGES:
            return tag
    return LANGUAGES[0]
