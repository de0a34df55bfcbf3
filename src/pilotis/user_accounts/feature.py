"""Second factors of console users, and their forgotten passwords by mail."""

from __future__ import annotations

from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.mail.feature import MailFeature
from pilotis.security.encryption.types import EncryptedColumn, Purpose
from pilotis.user_accounts.endpoints import UserFactorEndpoints
from pilotis.user_accounts.passkeys.endpoints import UserPasskeyEndpoints
from pilotis.user_accounts.passkeys.service import UserPasskeys
from pilotis.user_accounts.resets import UserResets
from pilotis.user_accounts.service import UserFactorService
from pilotis.user_accounts.tasks import periodic
from pilotis.users.feature import UsersFeature


class UserAccountsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Second factors of console users."""

    described = (UserFactorEndpoints, UserPasskeyEndpoints)
    encrypted_columns = (
        EncryptedColumn("user_totp", "secret", "name", Purpose.TOTP_SECRET),
        EncryptedColumn("user_recovery_codes", "code", "name", Purpose.RECOVERY_CODE),
    )

    factors: UserFactorService
    passkeys: UserPasskeys
    sends_mail: bool
    """Whether forgotten passwords are reset by mail."""


def feature(floor: Floor, users: UsersFeature, mail: MailFeature) -> UserAccountsFeature:
    """Return the feature."""
    factors = UserFactorService(floor.database, users.users, floor.rate_limits, floor.secrets)
    origin = floor.settings.console_origin or floor.base_url
    passkeys = UserPasskeys(floor.database, users.users, factors, origin)
    resets = UserResets(floor.database, users.users, floor.jobs, floor.rate_limits, mail.operator_mail, floor.base_url)
    return UserAccountsFeature(
        name="user_accounts",
        endpoints=[UserFactorEndpoints(factors, passkeys, resets), UserPasskeyEndpoints(passkeys)],
        jobs=[resets.kind],
        factors=factors,
        passkeys=passkeys,
        periodic=periodic(floor.database),
        sends_mail=mail.operators is not None,
    )
