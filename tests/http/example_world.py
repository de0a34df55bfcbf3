"""What the examples of operations are about: an app with a table of cafes, a member, a storage with a file, and so on.

Each thing is made when an example first asks for it, so that an example meets as little else as can be.
"""

import asyncio
import hashlib
import json
import re
import uuid
from datetime import timedelta
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import httpx
import msgspec

from pilotis.http.api.example import examples_beside
from pilotis.oauth.social.types import Recognised
from pilotis.security import single_use
from tests import forked
from tests.accounts import authenticator
from tests.accounts.security_key import SecurityKey
from tests.backstage import run_sql
from tests.conftest import PASSWORD
from tests.files.pictures import RED, bands, encoded
from tests.hosting.sites import zipped
from tests.oauth import vendors
from tests.services import address
from tests.support import App, Server
from tests.waiting import PATIENCE, wait_until

SCHEMA = {
    "name": {"type": "string", "required": True},
    "rating": "number",
    "tags": "array",
    "location": "object",
    "opened": "date",
}
ROWS = [
    {
        "name": "Blue Door",
        "rating": 4.5,
        "tags": ["espresso", "wifi"],
        "location": {"latitude": 35.1631, "longitude": 129.1635},
        "opened": "2021-03-01",
    },
    {
        "name": "Harbour Roasters",
        "rating": 4.2,
        "tags": ["espresso", "view", "wifi"],
        "location": {"latitude": 35.1587, "longitude": 129.0403},
        "opened": "2018-09-15",
    },
    {"name": "Station Espresso", "rating": 3.4, "tags": ["espresso"], "opened": "2023-11-20"},
]
FILE = b"Espresso 2\n"
LOGO = encoded(bands(64, 64, RED))
GREETING = "export default (payload) => `Hello, ${payload.name}!`;\n"
WEBHOOK = {
    "name": "orders",
    "url": "http://localhost:9/hooks",
    "event_types": ["row.created"],
    "headers": {"X-Team": "orders"},
}

# What an operation is about where its request does not name it.
_NEEDED = {
    "restoreOwnAccount": "RETURNING_TOKEN",
    "createMemberSignInCode": "SIGN_IN_KEY",
    **dict.fromkeys(["listTables", "listAuditEntries"], "TABLE_ID"),
    **dict.fromkeys(
        ["queryRows", "listRows", "deleteRows", "updateRows", "exportRows", "aggregateRows", "searchRows"], "ROW_ID"
    ),
    **dict.fromkeys(["createExportLink", "getAppStats"], "ROW_ID"),
    "listArchives": "ARCHIVE_ID",
    "getAttention": "TABLE_ID",
    "listBranches": "BRANCH_ID",
    "getUsage": "WEB_STORAGE_ID",
    "previewSchema": "ROW_ID",
    **dict.fromkeys(["listViews", "callView", "getViewResult"], "VIEW_ID"),
    **dict.fromkeys(["autocompleteValues", "searchRowsByLocation", "getStats"], "ROW_ID"),
    **dict.fromkeys(["listTrash", "deleteTrash"], "DELETED_TABLE_ID"),
    **dict.fromkeys(["signInMember", "listMembers"], "MEMBER_ID"),
    **dict.fromkeys(["listStorages", "listFiles", "getFileAtPath", "downloadFileAtPath"], "FILE_ID"),
    **dict.fromkeys(["listWebStorages", "listAppWebStorages"], "WEB_STORAGE_ID"),
    **dict.fromkeys(["getManifest", "listDeployments", "deployChanges", "promoteDeployment"], "DEPLOYMENT_ID"),
    **dict.fromkeys(["getAppManifest", "listAppDeployments", "deployAppChanges"], "DEPLOYMENT_ID"),
    **dict.fromkeys(["listPageMetas", "getPageMeta", "deletePageMeta", "deletePageMetas"], "PAGE_ID"),
    **dict.fromkeys(["listDomains", "deleteDomain"], "DOMAIN_ID"),
    **dict.fromkeys(["verifyDomain", "checkDomain"], "VERIFIED_DOMAIN_ID"),
    "listDeliveries": "DELIVERY_ID",
    **dict.fromkeys(["deleteEventType", "getEventCatalog", "publishEvent"], "EVENT_TYPE"),
    "listWebhooks": "WEBHOOK_ID",
    **dict.fromkeys(["listDeadJobs", "retryDeadJobs"], "DEAD_JOB_ID"),
    **dict.fromkeys(["signInUser", "signInToConsole"], "USER_ID"),
    **dict.fromkeys(
        ["listFunctions", "listFunctionExecutions", "listFunctionLogs", "getFunctionStats"], "EXECUTION_ID"
    ),
    "listTriggers": "TRIGGER_ID",
    "listWorkflows": "WORKFLOW_ID",
    "listWorkflowExecutions": "WORKFLOW_EXECUTION_ID",
    "publishMessage": "STREAM_ID",
    "listChannels": "STREAM_ID",
    **dict.fromkeys(["deleteUserTotp", "createUserRecoveryCodes"], "USER_RECOVERY_KEY"),
    **dict.fromkeys(["listAppVariables", "deleteAppVariable"], "APP_VARIABLE_ID"),
    **dict.fromkeys(["listScopes", "deleteScope"], "SCOPE"),
    "listClients": "CLIENT_ID",
    **dict.fromkeys(["listConnections", "listMemberConsents"], "CONSENT_ID"),
    **dict.fromkeys(
        ["listMemberIdentities", "deleteMemberIdentity", "listOwnIdentities", "deleteOwnIdentity"], "MEMBER_IDENTITY"
    ),
    "listGrants": "GRANT_ID",
    "createOauthKey": "NO_OAUTH_KEY",
    "listOauthKeys": "OAUTH_KEY",
    **dict.fromkeys(["listSocialProviders", "deleteSocialProvider"], "SOCIAL_PROVIDER"),
    "listInvitations": "INVITATION_ID",
    "listMemberInvitations": "MEMBER_INVITATION_ID",
    "listMails": "MAIL_ID",
    "createSignInCode": "SIGNED_IN_URL",
    **dict.fromkeys(["createReauthentication", "createMemberReset"], "PASSWORD_TOKEN"),
    "createEmailSignIn": "SIGN_IN_TOKEN",
    "listMailSuppressions": "ADDRESS_HASH_ID",
    **dict.fromkeys(["listOwnTeams", "createOwnTeam", "getTeamSettings", "listTeamsOfMember"], "OWN_TEAM_ID"),
    "listTeams": "TEAM_ID",
}


# What an operation changes or shows belongs to a console user that nothing else needs.
_OWN_USER = {"listApps", "replaceUserPassword", "listOwnAuditEntries", "resetUserPassword", "deleteOwnSession"}
_OWN_USER |= {"createUserTotp", "completeUserTotp", "deleteUserTotp", "createUserRecoveryCodes", "verifyUserSession"}
_OWN_USER |= {"completeUserSignIn", "completeConsoleSignIn", "getUserFactors"}
_OWN_USER |= {"createUserPasskey", "createUserPasskeyChallenge", "deleteUserPasskey"}
_OWN_USER |= {"completeUserPasskeySignIn", "signInToConsoleByPasskey"}
_OWN_USER |= {"getPreferences", "replacePreferences", "listOwnSessions"}


async def _dead_job(server: Server, app_id: str, subject: str) -> str:
    connection = await asyncpg.connect(**address(server))
    try:
        return str(
            await connection.fetchval(
                """
                insert into pilotis.jobs
                    (app_id, job_id, queue, kind, subject, payload, state, run_at, attempts, error, ended_at)
                values ($1::uuid, gen_random_uuid(), 'calls', 'functions.call', $2, '{}', 'dead', now(), 6,
                    '{"code": "TIMEOUT", "message": "TimeoutError: The job exceeded its time limit."}', now())
                returning job_id
                """,
                app_id,
                subject,
            )
        )
    finally:
        await connection.close()


async def _recognised(server: Server, app_id: str, client_id: str) -> str:
    """A code as it comes back from a vendor, which examples cannot ask."""
    minted = single_use.mint("xc_", UUID(app_id))
    found = Recognised(
        client_id=client_id,
        provider="GOOGLE",
        code_challenge="E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        request_id=None,
        member_id=None,
        session_id=uuid.uuid4(),
        subject="108",
        email=None,
        email_verified=False,
        name="Grace",
        picture=None,
    )
    connection = await asyncpg.connect(**address(server))
    try:
        lifetime = timedelta(hours=1)
        data = msgspec.to_builtins(found)
        await single_use.put(connection, UUID(app_id), minted, "oauth.exchange", data, lifetime)
    finally:
        await connection.close()
    return minted.text


class World:
    """The values of the variables in examples, by their names in small letters."""

    def __init__(self, server: Server, console: dict[str, str]) -> None:
        self._server = server
        self._console = console

    def value(self, variable: str) -> str:
        """Return the value of a variable such as `TABLE_ID`, and make what it names."""
        return str(getattr(self, variable.lower()))

    def prepare(self, operation: str) -> None:
        """Make what an operation needs and its request does not name."""
        if operation == "restoreApp":
            self._asked("DELETE", f"/v1/apps/{self.app_id}", self._console_headers)
        elif operation == "acceptInvitation":
            invited = World(self._server, self._console)._user
            self.invitation_token = self._invite(invited["email"])["token"]
            self._console = invited
        elif operation in _OWN_USER:
            invitation = self._invite(f"{uuid.uuid4()}@example.com")
            body = {"email": invitation["email"], "password": PASSWORD, "token": invitation["token"]}
            self._console = self._asked("POST", "/v1/auth/signup", {}, body)
        elif operation in {"listUniqueKeys", "deleteUniqueKey"}:
            self._of_app("POST", f"/tables/{self.value('TABLE_ID')}/unique", {"columns": ["name"], "ignore_case": True})
        elif operation in {"getRowByKey", "updateRowByKey", "deleteRowByKey"}:
            assert self.row_id
            self._of_app("POST", f"/tables/{self.table_id}/unique", {"columns": ["name"]})
        elif operation in {"createPasskeySignIn", "createPasskeyChallenge"}:
            self._allow_passkeys()
        elif operation == "createSecondFactor":
            assert self.passkey_id
        elif operation in {"createTotp", "createImpersonation"}:
            self._change_settings({"second_factor": "optional", "impersonation": "editor"})
        elif operation in {"deleteTotp", "createRecoveryCodes", "deleteMemberFactors"}:
            assert self._totp_secret
        elif operation == "replaceOwnPassword":
            body = {"token": self.sign_in_token}
            self._member = self._public("POST", "/v1/public/app-members/email-sign-in/confirm", body)
        if variable := _NEEDED.get(operation):
            self.value(variable)

    @cached_property
    def app(self) -> App:
        made = self._asked("POST", "/v1/apps", self._console_headers, {"name": "Cafe guide"})
        return App(self._server, made["app_id"], made["public_key"], made["secret_key"], self._console)

    @property
    def app_id(self) -> str:
        return self.app.app_id

    @property
    def public_key(self) -> str:
        return self.app.public_key

    @property
    def secret_key(self) -> str:
        return self.app.secret_key

    @property
    def sign_in_key(self) -> str:
        """A secret key that may sign members in, sent from now on in place of the console user's token."""
        assert self.member_id
        key: str = self._of_app("POST", "/keys/secret", {"name": "Site", "may_sign_in_members": True})["key"]
        self._console = {**self._console, "access_token": key}
        return key

    @cached_property
    def import_key(self) -> str:
        path = f"/v1/apps/{self.app_id}/tables/{self.table_id}/import?key=cafes-0"
        with httpx.Client(base_url=self._server.url, timeout=PATIENCE) as client:
            headers = self._console_headers | {"Content-Type": "text/csv"}
            content = b"name,rating\nCorner Bakery,4.1\nTea Room,good\n"
            assert client.post(path, content=content, headers=headers).status_code == 200
        return "cafes-0"

    @property
    def link_token(self) -> str:
        assert self.row_id
        path = f"/v1/apps/{self.app_id}/tables/{self.table_id}/export-link"
        return str(self._asked("POST", path, self._console_headers, {"format": "csv"})["url"].rpartition("/")[2])

    @cached_property
    def archive_id(self) -> str:
        """An archive that is written."""
        assert self.row_id
        path = f"/v1/apps/{self.app_id}/archives"
        body = {"passphrase": "correct horse battery"}
        made = str(self._asked("POST", path, self._console_headers, body)["id"])

        def is_completed() -> bool:
            return str(self._asked("GET", f"{path}/{made}", self._console_headers, None)["status"]) == "completed"

        wait_until(is_completed)
        return made

    @property
    def scheduled_app_id(self) -> str:
        """The app, of which archives are made at night."""
        body = {"cron": "30 2 * * *", "timezone": "Europe/Vienna", "keep": 5, "passphrase": "correct horse battery"}
        self._asked("PUT", f"/v1/apps/{self.app_id}/archive-schedule", self._console_headers, body)
        return self.app_id

    @property
    def archive_token(self) -> str:
        path = f"/v1/apps/{self.app_id}/archives/{self.archive_id}/link"
        return str(self._asked("POST", path, self._console_headers, None)["url"].rpartition("/")[2])

    @property
    def import_id(self) -> str:
        """An import of a file that is no archive."""
        url, headers = f"{self._server.url}/v1/apps/import", self._console_headers
        answer = httpx.post(url, headers=headers, files={"file": ("shop.pilotis", b"nothing " * 1280)})
        assert answer.status_code == 202, answer.text
        made = str(answer.json()["id"])
        wait_until(lambda: self._asked("GET", f"/v1/apps/import/{made}", headers)["status"] == "failed")
        return made

    def _own_team(self) -> str:
        """A team that Grace owns."""
        self._of_app("PUT", "/team-settings", {"members_create": True})
        headers = {"Authorization": f"Bearer {self.access_token}"}
        return str(self._asked("POST", "/v1/public/app-members/teams", headers, {"name": "Night owls"})["team_id"])

    @cached_property
    def own_team_id(self) -> str:
        return self._own_team()

    @cached_property
    def inviting_team_id(self) -> str:
        return self._own_team()

    @cached_property
    def team_id(self) -> str:
        return str(self._of_app("POST", "/teams", {"name": "Night owls"})["team_id"])

    @property
    def team_member_id(self) -> str:
        return self.member_id

    @cached_property
    def full_team_id(self) -> str:
        self._of_app("PUT", f"/teams/{self.team_id}/members/{self.member_id}", {"roles": ["editor"]})
        return self.team_id

    @cached_property
    def other_team_member_id(self) -> str:
        member_id = self._public("POST", "/v1/public/app-members")["member_id"]
        self._of_app("PUT", f"/teams/{self.own_team_id}/members/{member_id}", {"roles": ["editor"]})
        return str(member_id)

    @cached_property
    def _team_invitation(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.access_token}"}
        path = f"/v1/public/app-members/teams/{self.inviting_team_id}/invitations"
        return self._asked("POST", path, headers, {"link": True, "roles": ["editor"]})

    @property
    def team_invitation_id(self) -> str:
        return str(self._team_invitation["team_invitation_id"])

    @property
    def team_invitation_token(self) -> str:
        return str(self._team_invitation["token"])

    @cached_property
    def member_invitation_id(self) -> str:
        body = {"email": "linus@example.com", "roles": ["author"]}
        return str(self._of_app("POST", "/members/invitations", body)["invitation_id"])

    @property
    def member_invitation_token(self) -> str:
        assert self.member_invitation_id
        return self._token("invitation")

    def _token(self, purpose: str) -> str:
        """The token of the newest mail of a purpose that is in the mailbox."""
        path = f"/v1/apps/{self.app_id}/mail"
        query = {"purpose": purpose, "limit": 1}

        def newest() -> str | None:
            with httpx.Client(base_url=self._server.url, headers=self._console_headers) as client:
                found = client.get(path, params=query).json()["data"]
                return client.get(f"{path}/{found[0]['mail_id']}").json()["link"] if found else None

        return str(wait_until(newest)).partition("#")[2]

    @cached_property
    def ticket_token(self) -> str:
        body = {"subscriptions": [{"id": "all", "table_id": self.table_id}]}
        made = self._asked("POST", "/v1/public/realtime/tickets", {"X-Public-Key": self.public_key}, body)
        ticket: str = made["ticket"]
        return ticket

    @cached_property
    def stream_id(self) -> str:
        """A stream that listens to a channel for as long as this world is there."""
        pattern = {"pattern": "room:{room}", "listen": True, "send": True, "presence": True}
        self._of_app("PUT", "/channels", {"channels": [pattern]})
        self._client = httpx.Client(headers={"X-Public-Key": self.public_key})
        body = {"channels": [{"name": "room:42"}]}
        url = f"{self._server.url}/v1/public/realtime"
        stream = self._client.send(self._client.build_request("POST", url, json=body), stream=True)
        # An iterator that is dropped closes the connection.
        self._lines = stream.iter_lines()
        for line in self._lines:
            if line.startswith("data: "):
                ready: str = json.loads(line.removeprefix("data: "))["stream"]
                return ready
        raise AssertionError("The stream was not ready.")

    @cached_property
    def verify_token(self) -> str:
        headers = {"Authorization": f"Bearer {self.access_token}"}
        self._asked("POST", "/v1/public/app-members/me/email", headers, {"email": "grace@example.com"})
        return self._token("verify_email")

    @cached_property
    def password_token(self) -> str:
        body = {"token": self.verify_token, "password": PASSWORD}
        self._public("POST", "/v1/public/app-members/email-verification", body)
        self._public("POST", "/v1/public/app-members/password-reset", {"email": "grace@example.com"})
        return self._token("reset_password")

    @cached_property
    def sign_in_token(self) -> str:
        self._change_settings({"methods": {"email_link": True}})
        self._public("POST", "/v1/public/app-members/email-sign-in", {"email": "grace@example.com"})
        return self._token("sign_in")

    def _change_settings(self, settings: Any) -> None:
        self._asked("PATCH", f"/v1/apps/{self.app_id}/account-settings", self._console_headers, settings)

    def _of_member(self, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.access_token}"}
        return self._asked("POST", f"/v1/public/app-members{path}", headers, body)

    @cached_property
    def _new_totp_secret(self) -> str:
        self._change_settings({"second_factor": "optional"})
        return str(self._of_member("/me/totp")["secret"])

    @property
    def first_totp_number(self) -> str:
        return authenticator.code(self._new_totp_secret)

    @cached_property
    def _totp_secret(self) -> str:
        self._of_member("/me/totp/confirm", {"code": self.first_totp_number})
        return self._new_totp_secret

    @property
    def totp_number(self) -> str:
        return authenticator.code(self._totp_secret, 1)

    @property
    def factor_token(self) -> str:
        assert self._totp_secret
        with httpx.Client(base_url=self._server.url, headers={"X-Public-Key": self.public_key}) as client:
            body = {"login_id": "grace", "password": PASSWORD}
            return str(client.post("/v1/public/app-members/signin", json=body).json()["ticket"])

    def _allow_passkeys(self) -> None:
        site = {"passkey_domain": "localhost", "allowed_origins": ["http://localhost:8090"]}
        self._change_settings({"methods": {"passkey": True}, **site})

    @cached_property
    def _security_key(self) -> SecurityKey:
        self._allow_passkeys()
        return SecurityKey("localhost", "http://localhost:8090")

    @cached_property
    def _attestation(self) -> tuple[str, dict[str, Any]]:
        key = self._security_key
        start = self._of_member("/me/passkeys/start")
        return start["ticket"], key.create(start["options"])

    @property
    def attestation_token(self) -> str:
        return self._attestation[0]

    @property
    def new_credential_id(self) -> str:
        return str(self._attestation[1]["id"])

    @property
    def new_client_data_token(self) -> str:
        return str(self._attestation[1]["response"]["clientDataJSON"])

    @property
    def new_object_token(self) -> str:
        return str(self._attestation[1]["response"]["attestationObject"])

    @cached_property
    def passkey_id(self) -> str:
        ticket, credential = self._attestation
        return str(self._of_member("/me/passkeys", {"ticket": ticket, "credential": credential})["id"])

    @cached_property
    def _assertion(self) -> tuple[str, dict[str, Any]]:
        assert self.passkey_id
        start = self._public("POST", "/v1/public/app-members/passkey-sign-in/start")
        return start["ticket"], self._security_key.sign(start["options"])

    @property
    def assertion_token(self) -> str:
        return self._assertion[0]

    @property
    def credential_id(self) -> str:
        return str(self._assertion[1]["id"])

    @property
    def client_data_token(self) -> str:
        return str(self._assertion[1]["response"]["clientDataJSON"])

    @property
    def authenticator_token(self) -> str:
        return str(self._assertion[1]["response"]["authenticatorData"])

    @property
    def signature_token(self) -> str:
        return str(self._assertion[1]["response"]["signature"])

    @cached_property
    def undo_token(self) -> str:
        body = {"token": self.verify_token, "password": PASSWORD}
        self._public("POST", "/v1/public/app-members/email-verification", body)
        headers = {"Authorization": f"Bearer {self.access_token}"}
        self._asked("DELETE", "/v1/public/app-members/me/email", headers)
        return self._token("address_changed")

    @cached_property
    def mail_id(self) -> str:
        self._asked("POST", f"/v1/apps/{self.app_id}/mail-settings/test", self._console_headers)
        return self._asked("GET", f"/v1/apps/{self.app_id}/mail", self._console_headers)["data"][0]["mail_id"]

    @cached_property
    def failed_mail_id(self) -> str:
        statement = "update pilotis.mail_messages set state = 'failed' where mail_id = $1 returning mail_id::text"
        return asyncio.run(run_sql(self._server, statement, self.mail_id))

    @cached_property
    def address_hash_id(self) -> str:
        path = f"/v1/apps/{self.app_id}/mail/suppressions"
        return self._asked("POST", path, self._console_headers, {"address": "gone@example.com"})["address_hash"]

    @property
    def console_token(self) -> str:
        return self._console["access_token"]

    @cached_property
    def table_id(self) -> str:
        body = {"title": "cafes", "schema": SCHEMA, "access_level": "Public"}
        return self._public("POST", "/v1/public/tables", body)["id"]

    @cached_property
    def view_id(self) -> str:
        assert self.row_id
        pipeline = [
            {"$match": {"opened": {"$gte": {"$param": "since"}}}},
            {"$unwind": "$tags"},
            {"$group": {"_id": "$tags", "cafes": {"$count": {}}}},
            {"$sort": {"cafes": -1, "_id": 1}},
        ]
        view = {
            "name": "popular-tags",
            "table_id": self.table_id,
            "pipeline": pipeline,
            "params": {"since": {"type": "date", "default": "2000-01-01"}},
            "read": True,
            "run_as": "app",
            "cache_seconds": 60,
        }
        return self._of_app("POST", "/views", view)["id"]

    @cached_property
    def row_id(self) -> str:
        path = f"/v1/public/tables/{self.table_id}/data"
        first, *_ = [self._public("POST", path, {"data": row})["id"] for row in ROWS]
        return first

    @cached_property
    def deleted_table_id(self) -> str:
        body = {"title": "old cafes", "schema": SCHEMA, "access_level": "Public"}
        table_id = self._public("POST", "/v1/public/tables", body)["id"]
        self._public("DELETE", f"/v1/public/tables/{table_id}")
        return table_id

    @cached_property
    def deleted_column_number(self) -> str:
        self._public("DELETE", f"/v1/public/tables/{self.table_id}/columns/rating")
        trash = self._asked("GET", f"/v1/apps/{self.app_id}/trash", self._console_headers)
        return str(trash["columns"][0]["number"])

    @cached_property
    def _member(self) -> dict[str, Any]:
        body = {"login_id": "grace", "password": PASSWORD, "nickname": "Grace"}
        return self._public("POST", "/v1/public/app-members/signup", body)

    @property
    def returning_token(self) -> str:
        """That of the member, which has deleted its account and signed in again."""
        self._change_settings({"deletion_grace_days": 14})
        headers = {"Authorization": f"Bearer {self.access_token}"}
        self._asked("DELETE", "/v1/public/app-members/me", headers, {"password": PASSWORD})
        body = {"login_id": "grace", "password": PASSWORD}
        self._member = self._public("POST", "/v1/public/app-members/signin", body)
        return self.access_token

    @property
    def access_token(self) -> str:
        return self._member["access_token"]

    @property
    def member_id(self) -> str:
        return self._member["member_id"]

    @property
    def member_session_id(self) -> str:
        path = f"/v1/apps/{self.app_id}/members/{self.member_id}/sessions"
        return self._asked("GET", path, self._console_headers)["sessions"][0]["session_id"]

    @property
    def own_session_id(self) -> str:
        return self._asked("GET", "/v1/auth/sessions", self._console_headers)["sessions"][0]["session_id"]

    @property
    def public_key_id(self) -> str:
        return self._keys("public")

    @property
    def secret_key_id(self) -> str:
        return self._keys("secret")

    def _keys(self, kind: str) -> str:
        path = f"/v1/apps/{self.app_id}/keys/{kind}"
        return self._asked("GET", path, self._console_headers)["data"][0]["key_id"]

    @cached_property
    def web_storage_id(self) -> str:
        path = f"/v1/apps/{self.app_id}/storages/webs"
        return self._asked("POST", path, self._console_headers, {"name": "Cafe guide"})["id"]

    def _deploy(self, text: bytes) -> str:
        path = f"/v1/apps/{self.app_id}/storages/webs/{self.web_storage_id}/deploy"
        files = {"file": ("site.zip", zipped({"index.html": text}))}
        answer = httpx.post(self._server.url + path, headers=self._console_headers, files=files)
        assert answer.status_code == 201, answer.text
        return answer.json()["deployment"]["id"]

    @cached_property
    def deployment_id(self) -> str:
        return self._deploy(b"<title>Cafe guide</title>\n")

    @cached_property
    def earlier_deployment_id(self) -> str:
        first = self.deployment_id
        self._deploy(b"<title>Cafes</title>\n")
        return first

    @cached_property
    def page_id(self) -> str:
        body = {"path": "/cafes/blue-door", "title": "Blue Door", "description": "Espresso by the sea"}
        return self._public("PUT", f"/v1/public/storages/webs/{self.web_storage_id}/page-metas", body)["path"]

    @cached_property
    def domain_id(self) -> str:
        path = f"/v1/apps/{self.app_id}/storages/webs/{self.web_storage_id}/domains"
        return self._asked("POST", path, self._console_headers, {"hostname": "www.cafes.example"})["hostname"]

    @cached_property
    def verified_domain_id(self) -> str:
        """A domain as if its TXT record had been found: the example's server asks no name server."""
        hostname = self.domain_id
        others = "delete from pilotis.web_domains where storage_id <> $1"
        verified = "update pilotis.web_domains set verified_at = now() where storage_id = $1"
        for statement in (others, verified):
            asyncio.run(run_sql(self._server, statement, uuid.UUID(self.web_storage_id)))
        return hostname

    @cached_property
    def content_upload_url(self) -> str:
        body = {"hash": hashlib.sha256(FILE).hexdigest(), "size": len(FILE)}
        path = f"/v1/public/storages/webs/{self.web_storage_id}/deploy/presign"
        headers = {"X-Public-Key": self.public_key, "Authorization": f"Bearer {self.secret_key}"}
        return self._asked("POST", path, headers, body)["uploads"][0]["upload_url"]

    @cached_property
    def storage_id(self) -> str:
        path = f"/v1/apps/{self.app_id}/storages/files"
        return self._asked("POST", path, self._console_headers, {"name": "menus"})["id"]

    @property
    def _storage(self) -> str:
        return f"/v1/public/storages/files/{self.storage_id}"

    @cached_property
    def _upload(self) -> dict[str, Any]:
        body = {"file_name": "menu.txt", "file_size": len(FILE), "mime_type": "text/plain"}
        return self._public("POST", f"{self._storage}/presigned-url", body)

    @property
    def upload_url(self) -> str:
        return self._upload["upload_url"]

    @cached_property
    def uploaded_file_id(self) -> str:
        httpx.put(self.upload_url, content=FILE, headers=self._upload["headers"]).raise_for_status()
        return self._upload["file_id"]

    @cached_property
    def file_id(self) -> str:
        return self._public("POST", f"{self._storage}/complete-upload", {"file_id": self.uploaded_file_id})["id"]

    @cached_property
    def resumable_upload_url(self) -> str:
        headers = {
            "X-Public-Key": self.public_key,
            "Tus-Resumable": "1.0.0",
            "Upload-Length": str(len(FILE)),
            "Upload-Metadata": "filename bWVudS50eHQ=,filetype dGV4dC9wbGFpbg==",
            "Content-Type": "application/offset+octet-stream",
        }
        answer = httpx.post(f"{self._server.url}{self._storage}/tus", content=FILE[:5], headers=headers)
        return answer.raise_for_status().headers["location"]

    @cached_property
    def webhook_id(self) -> str:
        return self._of_app("POST", "/webhooks", WEBHOOK)["id"]

    @cached_property
    def delivery_id(self) -> str:
        return self._of_app("POST", f"/webhooks/{self.webhook_id}/test", {})["delivery_id"]

    @cached_property
    def failed_delivery_id(self) -> str:
        """A delivery of a new row, which failed when its webhook was inactive for a moment."""
        path = f"/webhooks/{self.webhook_id}"
        assert self.row_id
        (delivery, *_) = wait_until(lambda: self._of_app("GET", f"{path}/logs")["data"])
        for is_active in (False, True):
            self._of_app("PUT", path, {"is_active": is_active})
        return delivery["id"]

    @cached_property
    def function_id(self) -> str:
        made = self._of_app("POST", "/functions", {"name": "greet", "runtime": "javascript"})
        path = f"/functions/{made['id']}"
        self._of_app("POST", f"{path}/versions", {"files": {"index.ts": GREETING}})
        self._of_app("PUT", f"{path}/env/GREETING", {"value": "Hello"})
        return made["id"]

    @cached_property
    def execution_id(self) -> str:
        path = f"/functions/{self.function_id}"
        self._of_app("POST", f"{path}/invoke", {"payload": {"name": "Ada"}})
        return wait_until(lambda: self._of_app("GET", f"{path}/executions")["data"])[0]["id"]

    @cached_property
    def trigger_id(self) -> str:
        body = {"type": "schedule", "cron": "0 4 * * *", "timezone": "Europe/Vienna"}
        return self._of_app("POST", f"/functions/{self.function_id}/triggers", body)["id"]

    @cached_property
    def branch_id(self) -> str:
        """A branch with a table that its parent does not have."""
        self._of_app("POST", "/branches", {"name": "pr-17", "rows": "all", "days": 7})
        wait_until(lambda: self._of_app("GET", "/branches")["data"][0]["state"] == "ready")
        made = self._of_app("GET", "/branches")["data"][0]
        body = {"title": "reviews", "schema": {"text": "string"}, "access_level": "Public"}
        headers = {"X-Public-Key": made["public_key"]}
        answer = httpx.post(f"{self.app.server.url}/v1/public/tables", json=body, headers=headers)
        assert answer.status_code == 201, answer.text
        return str(made["branch_id"])

    @cached_property
    def branch_digest_key(self) -> str:
        return str(self._of_app("GET", f"/branches/{self.branch_id}/diff")["digest"])

    @cached_property
    def workflow_id(self) -> str:
        example = examples_beside("pilotis.workflows.endpoints")["POST /v1/apps/:app_id/workflows"]
        return self._of_app("POST", "/workflows", example.body)["id"]

    @cached_property
    def triggered_workflow_id(self) -> str:
        made = self._of_app("POST", "/workflows", {"name": "triggered", "steps": []})["id"]
        self._of_app("POST", f"/workflows/{made}/trigger", {})
        return made

    @cached_property
    def trigger_token(self) -> str:
        path = f"/workflows/{self.triggered_workflow_id}/trigger"
        return self._of_app("GET", path)["trigger_url"].rpartition("/")[2]

    @cached_property
    def any_method_trigger_token(self) -> str:
        path = f"/workflows/{self.triggered_workflow_id}/trigger"
        return self._of_app("PATCH", path, {"methods": ["POST", "PUT", "GET"]})["trigger_url"].rpartition("/")[2]

    @cached_property
    def workflow_execution_id(self) -> str:
        path = f"/workflows/{self.workflow_id}"
        made = self._of_app("POST", f"{path}/execute", {"input": {"total": 120}})["execution_id"]
        wait_until(lambda: self._of_app("GET", f"{path}/executions/{made}")["status"] == "completed")
        return made

    @cached_property
    def waiting_workflow_id(self) -> str:
        """A workflow whose step fails, and waits for a minute before it is tried again."""
        self._of_app("POST", "/functions", {"name": "later", "runtime": "javascript"})
        step = {"step_type": "function", "function_id": "later", "retry_count": 1, "retry_delay": 60_000}
        return self._of_app("POST", "/workflows", {"name": "waits", "steps": [step]})["id"]

    @cached_property
    def waiting_execution_id(self) -> str:
        return self._of_app("POST", f"/workflows/{self.waiting_workflow_id}/execute", {})["execution_id"]

    @cached_property
    def failed_trigger_id(self) -> str:
        assert self.failed_call_id
        return self.trigger_id

    @cached_property
    def failed_call_id(self) -> str:
        return asyncio.run(_dead_job(self._server, self.app_id, self.trigger_id))

    @cached_property
    def app_variable_id(self) -> str:
        return self._of_app("PUT", "/env/GREETING", {"value": "Hello"})["name"]

    @cached_property
    def event_type(self) -> str:
        body = {"title": "Order created", "required_scope": "orders:read", "example": {"total": 12.5}}
        return self._of_app("PUT", "/event-types/order.created", body)["event_type"]

    def _of_app(self, method: str, path: str, body: Any = None) -> Any:
        return self._asked(method, f"/v1/apps/{self.app_id}{path}", self._console_headers, body)

    @cached_property
    def dead_job_id(self) -> str:
        return asyncio.run(_dead_job(self._server, self.app_id, self.app_id))

    def _invite(self, email: str) -> dict[str, Any]:
        path = f"/v1/apps/{self.app_id}/invitations"
        return self._asked("POST", path, self._console_headers, {"email": email, "role": "viewer"})

    @property
    def setup_token(self) -> str:
        return self._invite("ada@example.com")["token"]

    @property
    def server_url(self) -> str:
        return self._server.url

    @property
    def reset_token(self) -> str:
        done = forked.run("pilotis", "user", "reset", self._console["email"], *self._server.place)
        return re.findall(r"#([\w-]+)", done.stdout)[0]

    @cached_property
    def invitation_id(self) -> str:
        return self._invite("linus@example.com")["invitation_id"]

    @cached_property
    def scope(self) -> str:
        body = {"title": "See your orders", "description": "What you ordered, and when"}
        path = f"/v1/apps/{self.app_id}/oauth/scopes/orders:read"
        return self._asked("PUT", path, self._console_headers, body)["name"]

    @cached_property
    def client_id(self) -> str:
        body = {"name": "Coffee club", "redirect_uris": ["https://club.example/callback"]}
        return self._asked("POST", f"/v1/apps/{self.app_id}/oauth/clients", self._console_headers, body)["client_id"]

    @cached_property
    def logo_client_id(self) -> str:
        path = f"/v1/apps/{self.app_id}/oauth/clients/{self.client_id}/logo"
        answer = httpx.put(self._server.url + path, content=LOGO, headers=self._console_headers, timeout=PATIENCE)
        assert answer.status_code == 200, answer.text
        return self.client_id

    @cached_property
    def logo_app_id(self) -> str:
        url = f"{self._server.url}/v1/apps/{self.app_id}/account-settings/logo"
        answer = httpx.put(url, content=LOGO, headers=self._console_headers, timeout=PATIENCE)
        assert answer.status_code == 200, answer.text
        return self.app_id

    @cached_property
    def provider_client_id(self) -> str:
        self._of_app("PUT", "/oauth/settings", {"is_provider": True})
        return self.client_id

    @cached_property
    def social_provider(self) -> str:
        body = {"client_id": "1234.apps.googleusercontent.com", "client_secret": "GOCSPX-…"}
        return self._of_app("PUT", "/oauth/social/GOOGLE", body)["provider"]

    @property
    def no_oauth_key(self) -> str:
        """The server has no signing key from now on."""
        asyncio.run(run_sql(self._server, "delete from pilotis.oauth_keys"))
        return ""

    @property
    def oauth_key(self) -> str:
        """The one signing key of the server."""
        return self.no_oauth_key or self._of_app("POST", "/oauth/keys", {})["kid"]

    @cached_property
    def member_identity(self) -> str:
        query = """
            insert into pilotis.member_identities (app_id, provider, subject, member_id, email, email_verified)
            values ($1, 'GOOGLE', '110169484474386276334', $2, 'grace@example.com', true) returning provider
        """
        return asyncio.run(run_sql(self._server, query, UUID(self.app_id), self.member_id))

    @cached_property
    def social_client_id(self) -> str:
        settings = {"is_provider": True, "login_redirect_uris": ["https://cafes.example/signed-in"]}
        return self.client_id if self.social_provider and self._of_app("PUT", "/oauth/settings", settings) else ""

    @property
    def exchange_token(self) -> str:
        return asyncio.run(_recognised(self._server, self.app_id, self.social_client_id))

    @cached_property
    def id_token(self) -> str:
        path, nonce = "/v1/public/app-members/id-token-sign-in", "eH5kM0sN2qWb8xYt"
        with vendors.vendors() as vendor:
            body = {
                "client_id": vendors.CLIENT_ID,
                "client_secret": vendors.SECRET,
                "options": vendor.options("GOOGLE"),
            }
            self._of_app("PUT", "/oauth/social/GOOGLE", body)
            # The server keeps the vendor's keys, so the vendor may go.
            token = vendor.id_token("GOOGLE", nonce)
            self._public("POST", path, {"provider": "GOOGLE", "id_token": token, "nonce": nonce})
            vendor.person = vendors.Person(subject="110169484474386276334", email="grace@example.com", name="Grace")
            return vendor.id_token("GOOGLE", nonce)

    @property
    def provider_app_id(self) -> str:
        return self.app_id if self.provider_client_id else ""

    @cached_property
    def authorization_request_id(self) -> str:
        query = {
            "client_id": self.provider_client_id,
            "response_type": "code",
            "redirect_uri": "https://club.example/callback",
            "scope": "openid",
            "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
            "code_challenge_method": "S256",
        }
        answer = httpx.get(f"{self._server.url}/oauth/authorize", params=query)
        return re.findall(r"request_id=([\w-]+)", answer.headers["location"])[0]

    @cached_property
    def consent_id(self) -> str:
        headers = {"Authorization": f"Bearer {self.access_token}"}
        body = {"request_id": self.authorization_request_id}
        return self._asked("POST", "/v1/oauth/consent/approve", headers, body)["consent_id"]

    @cached_property
    def grant_id(self) -> str:
        return self._of_app("GET", "/oauth/grants", None)["data"][0]["grant_id"] if self.consent_id else ""

    @cached_property
    def _user(self) -> dict[str, Any]:
        credentials = {"email": "grace@example.com", "password": PASSWORD}
        invitation = self._invite(credentials["email"])
        answer = httpx.post(f"{self._server.url}/v1/auth/signin", json=credentials)
        if answer.status_code == 200:
            headers = {"Authorization": f"Bearer {answer.json()['access_token']}"}
            self._asked("POST", "/v1/invitations/accept", headers, {"token": invitation["token"]})
            return answer.json()
        return self._asked("POST", "/v1/auth/signup", {}, {**credentials, "token": invitation["token"]})

    @property
    def export_token(self) -> str:
        return str(self._of_member("/me/export")["token"])

    @cached_property
    def signed_in_url(self) -> str:
        """A page of the app that may receive its members' tokens."""
        page = "http://localhost:5173/signed-in"
        self._of_app("PUT", "/oauth/settings", {"login_redirect_uris": [page]})
        return page

    @cached_property
    def _user_key(self) -> SecurityKey:
        return SecurityKey(str(urlsplit(self._server.url).hostname), self._server.url)

    @cached_property
    def _user_attestation(self) -> tuple[str, dict[str, Any]]:
        start = self._asked("POST", "/v1/auth/factors/passkeys/start", self._console_headers)
        return start["ticket"], self._user_key.create(start["options"])

    @property
    def user_attestation_token(self) -> str:
        return self._user_attestation[0]

    @property
    def new_user_credential_id(self) -> str:
        return str(self._user_attestation[1]["id"])

    @property
    def new_user_client_data_token(self) -> str:
        return str(self._user_attestation[1]["response"]["clientDataJSON"])

    @property
    def new_user_object_token(self) -> str:
        return str(self._user_attestation[1]["response"]["attestationObject"])

    @cached_property
    def user_passkey_id(self) -> str:
        ticket, credential = self._user_attestation
        body = {"ticket": ticket, "credential": credential}
        return str(self._asked("POST", "/v1/auth/factors/passkeys", self._console_headers, body)["id"])

    @cached_property
    def _user_assertion(self) -> tuple[str, dict[str, Any]]:
        assert self.user_passkey_id
        start = self._asked("POST", "/v1/auth/passkey-sign-in/start", {})
        return start["ticket"], self._user_key.sign(start["options"])

    @property
    def user_assertion_token(self) -> str:
        return self._user_assertion[0]

    @property
    def user_credential_id(self) -> str:
        return str(self._user_assertion[1]["id"])

    @property
    def user_client_data_token(self) -> str:
        return str(self._user_assertion[1]["response"]["clientDataJSON"])

    @property
    def user_authenticator_token(self) -> str:
        return str(self._user_assertion[1]["response"]["authenticatorData"])

    @property
    def user_signature_token(self) -> str:
        return str(self._user_assertion[1]["response"]["signature"])

    @cached_property
    def user_totp_number(self) -> str:
        """The code of an authenticator app that is to be set up."""
        begun = self._asked("POST", "/v1/auth/factors/totp", self._console_headers)
        return authenticator.code(begun["secret"])

    @cached_property
    def user_recovery_key(self) -> str:
        body = {"code": self.user_totp_number}
        codes = self._asked("POST", "/v1/auth/factors/totp/confirm", self._console_headers, body)["recovery_codes"]
        return str(codes[0])

    @property
    def user_ticket_token(self) -> str:
        assert self.user_recovery_key
        body = {"email": self._console["email"], "password": PASSWORD}
        with httpx.Client(base_url=self._server.url) as client:
            return str(client.post("/v1/auth/signin", json=body).json()["ticket"])

    @property
    def user_id(self) -> str:
        return self._user["user_id"]

    @property
    def refresh_token(self) -> str:
        return self._user["refresh_token"]

    @property
    def _console_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.console_token}"}

    def _public(self, method: str, path: str, body: Any = None) -> Any:
        return self._asked(method, path, {"X-Public-Key": self.public_key}, body)

    def _asked(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> Any:
        answer = httpx.request(method, self._server.url + path, headers=headers, json=body)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        return answer.json()
