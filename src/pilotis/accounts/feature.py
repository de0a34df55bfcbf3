"""Accounts: verification of addresses, forgotten passwords, and sign-in by mail."""

from __future__ import annotations

from pilotis.accounts.claims import Claims
from pilotis.accounts.devices.endpoints import DeviceEndpoints
from pilotis.accounts.devices.service import Devices
from pilotis.accounts.endpoints import MailSignInEndpoints, ProofEndpoints
from pilotis.accounts.factors.endpoints import FactorEndpoints
from pilotis.accounts.factors.service import Factors
from pilotis.accounts.mail_sign_in import MailSignIn
from pilotis.accounts.mailing import Codes
from pilotis.accounts.passkeys.endpoints import PasskeyEndpoints
from pilotis.accounts.passkeys.service import Passkeys
from pilotis.accounts.service import Proofs
from pilotis.accounts.store import end_of_email
from pilotis.accounts.tasks import periodic
from pilotis.apps.feature import AppsFeature
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.mail.feature import MailFeature
from pilotis.members.feature import MembersFeature
from pilotis.oauth.feature import OAuthFeature


class AccountsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Accounts."""

    described = (
        ProofEndpoints,
        MailSignInEndpoints,
        FactorEndpoints,
        PasskeyEndpoints,
        DeviceEndpoints,
    )

    proofs: Proofs
    factors: Factors


def feature(
    floor: Floor, members: MembersFeature, mail: MailFeature, apps: AppsFeature, oauth: OAuthFeature
) -> AccountsFeature:
    """Return the feature."""
    codes = Codes(floor.signing_keys)
    claims = Claims(floor.database, members.members, oauth.links)
    proofs = Proofs(
        floor.database,
        members.members,
        mail.mails,
        floor.jobs,
        floor.passwords,
        floor.rate_limits,
        codes,
        apps.apps,
        claims,
        floor.base_url,
    )
    sign_in = MailSignIn(
        floor.database,
        apps.apps,
        members.members,
        claims,
        mail.mails,
        floor.jobs,
        floor.rate_limits,
        codes,
        oauth.social,
        floor.base_url,
    )
    factors = Factors(floor.database, members.members, mail.mails, floor.passwords, floor.rate_limits, floor.secrets)
    passkeys = Passkeys(floor.database, members.members, factors, oauth.links, floor.base_url)
    members.members.attach(proofs.claimed, end_of_email)
    return AccountsFeature(
        name="accounts",
        endpoints=[
            ProofEndpoints(proofs),
            MailSignInEndpoints(sign_in),
            FactorEndpoints(factors, passkeys),
            PasskeyEndpoints(passkeys),
            DeviceEndpoints(Devices(floor.database, members.members, floor.sessions)),
        ],
        jobs=[proofs.kind, sign_in.kind],
        periodic=periodic(floor.database),
        proofs=proofs,
        factors=factors,
    )
