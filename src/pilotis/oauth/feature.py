"""The OAuth 2.0 and OpenID Connect provider."""

from __future__ import annotations

from typing import ClassVar

from pilotis.apps.feature import AppsFeature
from pilotis.db.topics import Topic
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, Copied, LeftOut, SecretColumn, within
from pilotis.kit.rs256 import keys_of_pem
from pilotis.members.feature import MembersFeature
from pilotis.oauth.client_documents import ClientDocuments
from pilotis.oauth.clients import Clients
from pilotis.oauth.dynamic_clients import DynamicClients
from pilotis.oauth.endpoints import (
    DiscoveryEndpoints,
    GrantEndpoints,
    LogoEndpoints,
    OAuthClientEndpoints,
    OAuthSettingsEndpoints,
    ProtectedResourceEndpoints,
    RegistrationEndpoints,
)
from pilotis.oauth.events import EVENT_TYPES
from pilotis.oauth.flow.connections import Connections
from pilotis.oauth.flow.consent import Consent
from pilotis.oauth.flow.endpoints import (
    AuthorizationPages,
    ConnectionEndpoints,
    ConsentEndpoints,
    ConsentSessionEndpoints,
)
from pilotis.oauth.flow.service import Authorization
from pilotis.oauth.grants import Grants
from pilotis.oauth.https import Https
from pilotis.oauth.keys import SigningKeys
from pilotis.oauth.links.endpoints import MemberLinkEndpoints
from pilotis.oauth.links.service import MemberLinks
from pilotis.oauth.logos import Logos
from pilotis.oauth.logout.backchannel import BackchannelLogout
from pilotis.oauth.logout.endpoints import LogoutPages
from pilotis.oauth.logout.service import Logout
from pilotis.oauth.provider_settings import ProviderSettings
from pilotis.oauth.resources import ResourceProofs
from pilotis.oauth.social.client import VendorClient
from pilotis.oauth.social.endpoints import (
    IdTokenEndpoints,
    SocialCallbacks,
    SocialLoginEndpoints,
    SocialProviderEndpoints,
)
from pilotis.oauth.social.entrance import Entrance
from pilotis.oauth.social.id_token_sign_in import IdTokens
from pilotis.oauth.social.providers import SocialProviders
from pilotis.oauth.social.service import SocialLogin
from pilotis.oauth.tasks import periodic
from pilotis.oauth.tokens.access_tokens import AccessTokens
from pilotis.oauth.tokens.client_authentication import ClientAuthentication
from pilotis.oauth.tokens.dpop import Nonces
from pilotis.oauth.tokens.endpoints import TokenEndpoints
from pilotis.oauth.tokens.inspection import Inspection
from pilotis.oauth.tokens.issuing import Issuer
from pilotis.oauth.tokens.proofs import Proofs
from pilotis.oauth.tokens.service import Tokens
from pilotis.security.encryption.types import EncryptedColumn, Purpose


class OAuthFeature(Feature, frozen=True, kw_only=True, eq=False):
    """The provider."""

    described = (
        AuthorizationPages,
        ConsentSessionEndpoints,
        LogoutPages,
        ConsentEndpoints,
        ConnectionEndpoints,
        TokenEndpoints,
        DiscoveryEndpoints,
        RegistrationEndpoints,
        ProtectedResourceEndpoints,
        OAuthSettingsEndpoints,
        OAuthClientEndpoints,
        LogoEndpoints,
        GrantEndpoints,
        MemberLinkEndpoints,
        SocialProviderEndpoints,
        SocialLoginEndpoints,
        IdTokenEndpoints,
        SocialCallbacks,
    )
    archived: ClassVar[Archived] = {
        "oauth_settings": Copied(
            columns="is_provider access_token_seconds refresh_idle_days refresh_absolute_days consent_url"
            " login_redirect_uris dynamic_scopes link_by_verified_email created_at updated_at",
            checks={
                "access_token_seconds": within(60, 3600),
                "refresh_idle_days": within(1, 365),
                "refresh_absolute_days": within(1, 3650),
            },
        ),
        "oauth_scopes": Copied(
            columns="name title description is_default is_required created_at updated_at translations claims"
        ),
        "oauth_clients": Copied(
            columns="client_id name description token_endpoint_auth_method grant_types redirect_uris"
            " post_logout_redirect_uris scopes is_active source created_at updated_at client_uri policy_uri tos_uri"
            " jwks backchannel_logout_uri backchannel_logout_session_required require_pushed_authorization_requests"
            " dpop_bound_access_tokens claims_in_id_token",
            where="t.consumer_app_id is null and not t.is_dynamic",
        ),
        "social_providers": Copied(
            columns="provider client_id client_secret scopes client_ids options created_at updated_at",
            replaced={"is_enabled": "f"},
            secrets=[SecretColumn("client_secret", Purpose.OAUTH_SOCIAL_SECRET, "{provider}")],
        ),
        "member_identities": Copied(
            part="members", columns="provider subject member_id email email_verified picture created_at last_used_at"
        ),
        "oauth_resources": LeftOut("a resource is one app's on its server; register it again"),
        "oauth_logos": LeftOut("logos are fetched and checked by their server"),
        "oauth_browsers": LeftOut("sessions end; members sign in again"),
        "oauth_codes": LeftOut("codes last seconds"),
        "oauth_consents": LeftOut("consent was given for the server that asked"),
        "oauth_grants": LeftOut("tokens are signed by their server"),
        "oauth_requests": LeftOut("requests last minutes"),
        "oauth_revoked": LeftOut("tokens are signed by their server"),
        "oauth_used_proofs": LeftOut("proofs last minutes"),
    }
    encrypted_columns = (EncryptedColumn("oauth_keys", "private_key", "kid", Purpose.OAUTH_SIGNING_KEY),)

    access_tokens: AccessTokens
    keys: SigningKeys
    clients: Clients
    logos: Logos
    connections: Connections
    links: MemberLinks
    social: SocialLogin
    social_providers: SocialProviders


def feature(floor: Floor, apps: AppsFeature, members: MembersFeature) -> OAuthFeature:
    """Return the feature."""
    pem = floor.settings.oauth_rsa_private_key_pem
    keys = SigningKeys(floor.database, floor.secrets, keys_of_pem(pem) if pem else ())

    issuer = floor.base_url.rstrip("/")
    clients = Clients(floor.database, issuer)
    logos = Logos(floor.database, clients)
    proven = ResourceProofs(lambda: floor.outgoing, issuer)
    settings = ProviderSettings(floor.database, apps.apps, clients, proven, issuer)

    apps.settings.attach_pages(settings.page_fault)
    https = Https(issuer, allow_http=floor.settings.oauth_allow_http)
    tokens_issuer = Issuer(keys, issuer)
    inspection = Inspection(floor.database, tokens_issuer, floor.signing_keys)
    tokens = Tokens(floor.database, tokens_issuer, inspection, floor.signing_keys)
    proofs = Proofs(floor.database, issuer, Nonces(floor.signing_keys))
    access_tokens = AccessTokens(floor.database, apps.apps, tokens_issuer, inspection, proofs)
    documents = ClientDocuments(lambda: floor.outgoing, issuer)
    registers = floor.settings.oauth_dynamic_registration
    dynamic = DynamicClients(
        floor.database, apps.apps, clients, documents, floor.rate_limits, issuer, registers=registers
    )
    authorization = Authorization(floor.database, tokens_issuer, dynamic, floor.rate_limits)
    backchannel = BackchannelLogout(floor.database, floor.jobs, keys, issuer, lambda: floor.outgoing)

    def wake() -> None:
        floor.jobs.wake(backchannel.kind.queue)

    logout = Logout(floor.database, tokens_issuer, apps.apps, members.members, floor.signing_keys, wake)
    connections = Connections(floor.database, floor.events, backchannel, issuer)
    providers = SocialProviders(floor.database, apps.apps, floor.secrets, issuer)
    vendors, entrance = VendorClient(lambda: floor.outgoing), Entrance(members.members)
    social = SocialLogin(
        floor.database,
        apps.apps,
        members.members,
        floor.sessions,
        floor.rate_limits,
        providers,
        vendors,
        entrance,
        issuer,
    )
    id_tokens = IdTokens(floor.database, floor.rate_limits, providers, vendors, entrance)
    links = MemberLinks(floor.database, connections)
    consent = Consent(floor.database, floor.events, tokens_issuer, floor.sessions)

    async def start() -> None:
        floor.control.subscribe(Topic.OAUTH_KEYS, lambda _: keys.reset(), keys.reset)

    return OAuthFeature(
        name="oauth",
        endpoints=[
            AuthorizationPages(https, apps.apps, authorization, consent),
            ConsentSessionEndpoints(https, consent),
            LogoutPages(https, apps.apps, logout),
            ConsentEndpoints(consent),
            ConnectionEndpoints(connections),
            TokenEndpoints(
                floor.database,
                https,
                tokens_issuer,
                ClientAuthentication(floor.database, floor.rate_limits, dynamic, issuer),
                tokens,
                inspection,
                proofs,
                access_tokens,
                authorization,
                apps.apps,
            ),
            DiscoveryEndpoints(keys, issuer, registers=registers),
            RegistrationEndpoints(https, dynamic),
            ProtectedResourceEndpoints(settings),
            OAuthSettingsEndpoints(settings),
            OAuthClientEndpoints(clients),
            LogoEndpoints(logos),
            GrantEndpoints(Grants(floor.database, backchannel), keys),
            MemberLinkEndpoints(links),
            SocialProviderEndpoints(providers),
            SocialLoginEndpoints(social),
            IdTokenEndpoints(id_tokens),
            SocialCallbacks(social),
        ],
        jobs=[backchannel.kind],
        event_types=EVENT_TYPES,
        periodic=periodic(floor.database),
        start=start,
        access_tokens=access_tokens,
        keys=keys,
        clients=clients,
        logos=logos,
        connections=connections,
        links=links,
        social=social,
        social_providers=providers,
    )
