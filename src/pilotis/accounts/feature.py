"""Accounts: verification of addresses and forgotten passwords."""

from __future__ import annotations

from pilotis.accounts.endpoints import AccountPageEndpoints, ProofEndpoints
from pilotis.accounts.service import Proofs
from pilotis.accounts.tasks import periodic
from pilotis.apps.feature import AppsFeature
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.mail.feature import MailFeature
from pilotis.members.feature import MembersFeature


class AccountsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Accounts."""

    described = (ProofEndpoints, AccountPageEndpoints)

    proofs: Proofs


def feature(floor: Floor, members: MembersFeature, mail: MailFeature, apps: AppsFeature) -> AccountsFeature:
    """Return the feature."""
    proofs = Proofs(
        floor.database,
        members.members,
        mail.mails,
        floor.jobs,
        floor.passwords,
        floor.rate_limits,
        floor.signing_keys,
        floor.base_url,
    )
    members.members.attach(proofs.claimed)
    return AccountsFeature(
        name="accounts",
        endpoints=[ProofEndpoints(proofs), AccountPageEndpoints(proofs, apps.apps)],
        jobs=[proofs.kind],
        periodic=periodic(floor.database),
        proofs=proofs,
    )
