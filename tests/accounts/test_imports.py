"""Members of other products come with their passwords, and nobody gets another's address by that."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import bcrypt

from tests.commands import run
from tests.console import owner_of
from tests.kit.test_foreign_passwords import FIREBASE
from tests.mail.world import MEMBERS, PASSWORD, account, call, mails, post, sign_in, sign_up, verified
from tests.support import App, assert_error

HASH = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()


def bcrypt_hash(text: str = HASH) -> dict[str, Any]:
    return {"scheme": "bcrypt", "hash": text}


async def imported(app: App, *lines: Any) -> dict[str, Any]:
    content = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return await call(app, "POST", "/members/import", content=content)


class TestImport:
    async def test_members_of_pocketbase_and_supabase_sign_in_with_their_passwords(self, app: App):
        """The hash is replaced by one of our own at the first sign-in, which a second one shows to be right."""
        member_id = str(uuid4())
        supabase = {
            "member_id": member_id,
            "email": "Ada@example.com",
            "email_verified": True,
            "password_hash": bcrypt_hash(HASH.replace("$2b$", "$2a$")),
            "created_at": "2021-02-03T04:05:06Z",
            "roles": ["admin"],
            "custom_data": {"plan": "pro"},
            "identities": [{"provider": "GOOGLE", "subject": "1234"}],
        }
        pocketbase = {"login_id": "bob", "nickname": "Bob", "password_hash": bcrypt_hash()}
        assert await imported(app, supabase, pocketbase) == {"created": 2, "rejected": []}
        for _ in range(2):
            ada = (await sign_in(app, "ada@example.com", PASSWORD)).json()
            assert ada["member_id"] == member_id
            assert (await sign_in(app, "bob", PASSWORD)).status_code == 200
            assert_error(await sign_in(app, "bob", PASSWORD + "x"), 401, "INVALID_CREDENTIALS")
        own = await account(app, ada["access_token"])
        assert (own["email"], own["login_id"], own["roles"]) == ("Ada@example.com", None, ["admin"])
        assert (own["created_at"], own["custom_data"]) == ("2021-02-03T04:05:06.000Z", {"plan": "pro"})
        linked = (await call(app, "GET", f"/members/{member_id}/identities"))["identities"]
        assert [(one["provider"], one["subject"]) for one in linked] == [("GOOGLE", "1234")]

    async def test_firebase_signs_in(self, app: App):
        given = {"scheme": "firebase_scrypt", "hash": FIREBASE["digest"], **FIREBASE}
        del given["digest"]
        await imported(app, {"login_id": "fay", "password_hash": given})
        assert (await sign_in(app, "fay", "user1password")).status_code == 200

    async def test_a_rejected_line_does_not_stop_the_others(self, app: App):
        """A19: a hash whose cost would stop the server is none."""
        await sign_up(app, "taken")
        owner = await verified(app, "owner", "owner@example.com")
        answer = await imported(
            app,
            {"login_id": "new"},
            {"login_id": "taken"},
            "",
            "{nonsense",
            {"email": "owner@example.com", "email_verified": True},
            # A sign-in with this name would be the owner's.
            {"email": "Owner@example.com"},
            {"nickname": "Nobody"},
            {"login_id": "cost", "password_hash": bcrypt_hash("$2b$31$" + "a" * 53)},
            {"login_id": "bomb", "password_hash": {"scheme": "firebase_scrypt", "hash": "aaaa", "mem_cost": 30}},
            {"login_id": "who", "is_admin": True},
            {"login_id": "twice", "member_id": owner["member_id"]},
            {"login_id": "role", "roles": ["Röle"]},
            {"login_id": "when", "created_at": "yesterday"},
            {"login_id": "last", "identities": [{"provider": "GOOGLE", "subject": "1"}]},
            {"login_id": "other", "identities": [{"provider": "GOOGLE", "subject": "1"}]},
        )
        assert answer["created"] == 2
        assert [(one["line"], one["code"]) for one in answer["rejected"]] == [
            (2, "LOGIN_ID_TAKEN"),
            (4, "MALFORMED_JSON"),
            (5, "EMAIL_TAKEN"),
            (6, "LOGIN_ID_TAKEN"),
            (7, "REQUIRED"),
            (8, "INVALID_HASH"),
            (9, "INVALID_HASH"),
            (10, "UNKNOWN_FIELD"),
            (11, "MEMBER_ID_TAKEN"),
            (12, "INVALID_VALUE"),
            (13, "INVALID_VALUE"),
            (15, "IDENTITY_TAKEN"),
        ]
        found = await call(app, "GET", "/members", params={"search": "other"})
        assert found["total_count"] == 0

    async def test_a_request_has_a_thousand_lines_and_an_editor_sends_it(self, app: App):
        async with owner_of(app).client(app) as client:
            answer = await client.post("/members/import", content="{}\n" * 1001)
        assert_error(answer, 400, "VALIDATION_FAILED")

    async def test_a01_an_imported_member_that_never_proved_its_address_is_claimed(self, app: App):
        await call(app, "PATCH", "/account-settings", json={"login_id_form": "email", "methods": {"email_code": True}})
        await imported(app, {"email": "eve@example.com", "password_hash": bcrypt_hash()})
        thief = (await sign_in(app, "eve@example.com", PASSWORD)).json()
        asked = (await post(app, "/email-sign-in", {"email": "eve@example.com"})).json()
        code = (await mails(app, 1, purpose="sign_in"))[0]["code"]
        answer = await post(app, "/email-sign-in/confirm", {"ticket": asked["ticket"], "code": code})
        assert answer.json()["member_id"] == thief["member_id"]
        async with app.client(thief["access_token"]) as client:
            assert (await client.get(f"{MEMBERS}/me")).status_code == 401
        assert_error(await sign_in(app, "eve@example.com", PASSWORD), 401, "INVALID_CREDENTIALS")

    async def test_an_import_works_where_sign_up_is_closed_and_a_ban_of_hashes_stays(self, app: App):
        await call(app, "PATCH", "/account-settings", json={"sign_up": "closed"})
        await imported(app, {"login_id": "off", "is_active": False, "password_hash": bcrypt_hash()})
        assert_error(await sign_in(app, "off", PASSWORD), 403, "MEMBER_INACTIVE")

    def test_the_command_imports_files_of_any_length(self, app: App, tmp_path: Path):
        file = tmp_path / "members.jsonl"
        lines = [{"login_id": f"member-{number}"} for number in range(1001)] + [{"login_id": "member-7"}]
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        done = run("members", "import", str(file), "--app", app.app_id, "--json", *app.server.place)
        result = json.loads(done.stdout)
        assert result["created"] == 1001
        assert [(one["line"], one["code"]) for one in result["rejected"]] == [(1002, "LOGIN_ID_TAKEN")]
