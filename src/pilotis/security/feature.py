"""Authentication, sessions and the audit log."""

from __future__ import annotations

from typing import ClassVar

from pilotis.apps.feature import AppsFeature
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, LeftOut
from pilotis.kit.signing import TokenSigner
from pilotis.members.feature import MembersFeature
from pilotis.oauth.feature import OAuthFeature
from pilotis.security.audit.endpoints import AuditEndpoints
from pilotis.security.audit.service import AuditLog
from pilotis.security.authenticator import Authentication
from pilotis.security.endpoints import TokenEndpoints
from pilotis.security.function_tokens.service import FunctionTokens
from pilotis.security.idempotency import tasks as idempotency_tasks
from pilotis.security.idempotency.store import IdempotencyKeys
from pilotis.security.tasks import periodic
from pilotis.users.feature import UsersFeature


class SecurityFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Authentication, the tokens of functions, the audit log, and idempotency keys."""

    described = (TokenEndpoints, AuditEndpoints)
    archived: ClassVar[Archived] = {
        "sessions": LeftOut("tokens are signed by their server; members sign in again"),
        "audit_log": LeftOut("the audit log is of the server on which it happened"),
        "single_use": LeftOut("links and codes are for the server that sent them"),
        "idempotency_keys": LeftOut("repeats are for the server that answered first"),
        "function_tokens": LeftOut("tokens are for the execution that got them"),
    }

    authentication: Authentication
    function_tokens: FunctionTokens
    idempotency_keys: IdempotencyKeys


def feature(
    floor: Floor, apps: AppsFeature, members: MembersFeature, users: UsersFeature, oauth: OAuthFeature
) -> SecurityFeature:
    """Return the feature."""
    function_tokens = FunctionTokens(floor.database, TokenSigner(floor.signing_keys), apps.apps.by_id)
    authentication = Authentication(
        apps.apps,
        members.members,
        users.users,
        floor.sessions,
        oauth.access_tokens,
        function_tokens,
        needs_second_factor=floor.settings.console_second_factor == "required",
    )
    idempotency_keys = IdempotencyKeys(floor.database, floor.secrets, floor.jobs.node_id)
    return SecurityFeature(
        name="security",
        endpoints=[TokenEndpoints(authentication), AuditEndpoints(AuditLog(floor.database))],
        periodic=[*periodic(floor), idempotency_tasks.expire(floor.database, idempotency_keys)],
        holdings=[idempotency_keys],
        authentication=authentication,
        function_tokens=function_tokens,
        idempotency_keys=idempotency_keys,
    )
