"""How the members of an app make accounts and prove who they are. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

SignUpPolicy = Literal["open", "closed"]
LoginIdForm = Literal["any", "email"]
Requirement = Literal["off", "optional", "required"]


class AccountSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An app's settings as they are stored, without those that have their default."""

    sign_up: SignUpPolicy = "open"
    """Whether members may make themselves; the app's own side always may."""
    login_id_form: LoginIdForm = "any"
    email_verification: Requirement = "optional"
    second_factor: Requirement = "off"
    email_code: bool = False
    email_link: bool = False
    passkey: bool = False


DEFAULTS = AccountSettings()
