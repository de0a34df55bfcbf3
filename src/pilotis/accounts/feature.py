"""Accounts: verification of addresses, forgotten passwords, and sign-in by mail."""

from __future__ import annotations

from typing import ClassVar

from pilotis.accounts.claims import Claims
from pilotis.accounts.devices.endpoints import DeviceEndpoints
from pilotis.accounts.devices.service import Devices
from pilotis.accounts.endpoints import MailSignInEndpoints, ProofAdministrationEndpoints, ProofEndpoints
from pilotis.accounts.factors.endpoints import FactorEndpoints
from pilotis.accounts.factors.mailed import MailedFactors
from pilotis.accounts.factors.service import Factors
from pilotis.accounts.identities.endpoints import OwnIdentityEndpoints
from pilotis.accounts.identities.service import OwnIdentities
from pilotis.accounts.imports.endpoints import ImportEndpoints
from pilotis.accounts.imports.service import Imports
from pilotis.accounts.invitations.endpoints import InvitedEndpoints, MemberInvitationEndpoints
from pilotis.accounts.invitations.service import MemberInvitations
from pilotis.accounts.mail_sign_in import MailSignIn
from pilotis.accounts.mailing import Codes, farewells
from pilotis.accounts.passkeys.endpoints import PasskeyEndpoints
from pilotis.accounts.passkeys.service import Passkeys
from pilotis.accounts.reproofs import Reproofs
from pilotis.accounts.service import Proofs
from pilotis.accounts.sign_in_codes.endpoints import MemberSignInCodeEndpoints, SignInCodeEndpoints
from pilotis.accounts.store import end_of_email
from pilotis.accounts.tasks import periodic
from pilotis.apps.feature import AppsFeature
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, Copied, LeftOut, SecretColumn
from pilotis.mail.feature import MailFeature
from pilotis.members.feature import MembersFeature
from pilotis.oauth.feature import OAuthFeature
from pilotis.security.encryption.types import Purpose
from pilotis.teams.feature import TeamsFeature


class AccountsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Accounts."""

    described = (
        ProofEndpoints,
        ProofAdministrationEndpoints,
        MailSignInEndpoints,
        FactorEndpoints,
        PasskeyEndpoints,
        DeviceEndpoints,
        ImportEndpoints,
        MemberInvitationEndpoints,
        InvitedEndpoints,
        SignInCodeEndpoints,
        MemberSignInCodeEndpoints,
        OwnIdentityEndpoints,
    )
    archived: ClassVar[Archived] = {
        "account_passkeys": Copied(
            part="members",
            columns="passkey_id member_id credential_id credential name sign_count is_synced created_at last_used_at",
        ),
        "account_totp": Copied(
            part="members",
            columns="member_id secret last_step confirmed_at created_at",
            secrets=[SecretColumn("secret", Purpose.TOTP_SECRET, "{member_id}")],
        ),
        "account_recovery_codes": Copied(
            part="members",
            columns="member_id number code",
            secrets=[SecretColumn("code", Purpose.RECOVERY_CODE, "{member_id}/{number}")],
        ),
        "account_challenges": LeftOut("challenges last minutes"),
        "account_proofs": LeftOut("links and codes are for the server that sent them"),
        "member_invitations": LeftOut("invitations are for the server that sent them"),
        "sign_in_tickets": LeftOut("tickets last minutes"),
    }

    proofs: Proofs
    factors: Factors
    imports: Imports


def feature(
    floor: Floor,
    members: MembersFeature,
    mail: MailFeature,
    apps: AppsFeature,
    oauth: OAuthFeature,
    teams: TeamsFeature,
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
    reproofs = Reproofs(floor.database, members.members, mail.mails, floor.rate_limits, codes, passkeys)
    mailed = MailedFactors(floor.database, members.members, mail.mails, floor.rate_limits, codes, factors)
    imports = Imports(floor.database, members.members, oauth.links)
    invitations = MemberInvitations(
        floor.database, members.members, teams.teams, mail.mails, floor.rate_limits, floor.base_url
    )
    members.members.attach(proofs.claimed, end_of_email, claims.claim)
    members.members.attach_invitations(invitations)
    members.members.attach_farewells(farewells(mail.mails, floor.base_url))
    members.challenges.attach(apps.settings.challenge_secret)
    return AccountsFeature(
        name="accounts",
        endpoints=[
            ProofEndpoints(proofs),
            ProofAdministrationEndpoints(proofs),
            MailSignInEndpoints(sign_in),
            FactorEndpoints(factors, passkeys, mailed, reproofs),
            PasskeyEndpoints(passkeys),
            DeviceEndpoints(Devices(floor.database, members.members, floor.sessions)),
            ImportEndpoints(imports),
            MemberInvitationEndpoints(invitations),
            InvitedEndpoints(invitations),
            SignInCodeEndpoints(oauth.social),
            OwnIdentityEndpoints(OwnIdentities(floor.database, members.members, oauth.links)),
            MemberSignInCodeEndpoints(oauth.social, apps.keyring.may_sign_in_members),
        ],
        jobs=[proofs.kind, sign_in.kind],
        periodic=periodic(floor.database),
        proofs=proofs,
        factors=factors,
        imports=imports,
    )
