"""Interface: App member authentication."""

import asyncio
import os
import time
import unicodedata
from statistics import median
from typing import Any

import httpx
import pytest

from pilotis.kit.passwords import Passwords
from tests.backstage import bearer, claims_of, me, run_sql
from tests.console import owner_of, set_auth
from tests.support import GENEROUS, App, assert_error, plain_client

SIGN_UP = "/v1/public/app-members/signup"
SIGN_IN = "/v1/public/app-members/signin"
GUEST = "/v1/public/app-members"
ME = "/v1/public/app-members/me"
CUSTOM_DATA = "/v1/public/app-members/me/custom-data"
SIGN_OUT = "/v1/public/app-members/signout"
RE_ISSUE = "/v1/auth/re-issue"

ADA = {"login_id": "ada", "password": "correct horse"}


async def post(app: App, path: str, body: Any = None, token: str | None = None) -> httpx.Response:
    async with app.client(token) as client:
        return await client.post(path, json=body) if body is not None else await client.post(path)


async def post_text(app: App, path: str, body: bytes) -> httpx.Response:
    async with app.client() as client:
        return await client.post(path, content=body, headers={"Content-Type": "application/json"})


async def guest(app: App) -> dict[str, Any]:
    answer = await post(app, GUEST)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def deactivate(app: App, member_id: str) -> None:
    await run_sql(app.server, "update pilotis.members set is_active = false where member_id = $1", member_id)


class TestSignUp:
    async def test_it_answers_201_with_the_member_and_its_tokens(self, app: App):
        answer = await post(app, SIGN_UP, {**ADA, "nickname": "Ada"})
        assert answer.status_code == 201
        assert set(answer.json()) == {"member_id", "nickname", "access_token", "refresh_token"}
        assert answer.json()["nickname"] == "Ada"
        record = (await me(app.server, answer.json()["access_token"])).json()
        assert record["member_id"] == answer.json()["member_id"]

    async def test_the_nickname_is_optional(self, app: App):
        assert (await app.member())["nickname"] is None

    async def test_a_login_id_is_taken_once_in_an_app(self, app: App, other_app: App):
        await app.member()
        assert_error(await post(app, SIGN_UP, ADA), 409, "LOGIN_ID_TAKEN")
        assert (await post(other_app, SIGN_UP, ADA)).status_code == 201

    async def test_a_login_id_is_compared_exactly(self, app: App):
        await app.member("ada")
        for other in ("Ada", "ada ", "аda"):  # the last begins with a Cyrillic letter
            assert (await post(app, SIGN_UP, {**ADA, "login_id": other})).status_code == 201

    async def test_a_login_id_is_the_same_in_every_unicode_form(self, app: App):
        composed, decomposed = (unicodedata.normalize(form, "José 한국") for form in ("NFC", "NFD"))
        assert composed != decomposed
        made = await app.member(decomposed)
        assert_error(await post(app, SIGN_UP, {**ADA, "login_id": composed}), 409, "LOGIN_ID_TAKEN")
        answer = await post(app, SIGN_IN, {**ADA, "login_id": composed})
        assert answer.json()["member_id"] == made["member_id"]

    @pytest.mark.parametrize("login_id", ["x", "x" * 255, "한" * 255, "a'b\"c;--", "guest_1", "👩🏽"])
    async def test_any_text_of_1_to_255_characters_is_a_login_id(self, app: App, login_id: str):
        assert (await post(app, SIGN_UP, {**ADA, "login_id": login_id})).status_code == 201
        assert (await post(app, SIGN_IN, {**ADA, "login_id": login_id})).status_code == 200

    @pytest.mark.share(0.34)
    @pytest.mark.parametrize(
        "login_id",
        # The note has no composed form: in NFC it is three characters, each of four bytes.
        ["", "x" * 256, "x" * 100_000, "\U0001d160" * 255, "a\0b", None, 1, True, ["ada"], {"$ne": None}, {}],
    )
    @pytest.mark.parametrize("path", [SIGN_UP, SIGN_IN])
    async def test_anything_else_is_not(self, app: App, path: str, login_id: Any):
        assert_error(await post(app, path, {**ADA, "login_id": login_id}), 400, "VALIDATION_FAILED")

    @pytest.mark.parametrize("password", ["12345678", "p" * 256, "пароль без слов", "😀" * 8])
    async def test_a_password_has_8_to_256_characters(self, app: App, password: str):
        body = {"login_id": "ada", "password": password}
        assert (await post(app, SIGN_UP, body)).status_code == 201
        assert (await post(app, SIGN_IN, body)).status_code == 200

    @pytest.mark.parametrize(
        "password", ["", "1234567", "p" * 257, "p" * 100_000, None, 12345678, True, ["12345678"], {"$ne": None}]
    )
    async def test_any_other_password_is_refused(self, app: App, password: Any):
        body = assert_error(await post(app, SIGN_UP, {**ADA, "password": password}), 400, "VALIDATION_FAILED")
        assert body["details"][0]["field"] == "password"
        assert await run_sql(app.server, "select count(*) from pilotis.members where app_id = $1", app.app_id) == 0

    @pytest.mark.parametrize("missing", ["login_id", "password"])
    @pytest.mark.parametrize("path", [SIGN_UP, SIGN_IN])
    async def test_login_id_and_password_are_required(self, app: App, path: str, missing: str):
        body = {name: value for name, value in ADA.items() if name != missing}
        refused = assert_error(await post(app, path, body), 400, "VALIDATION_FAILED")
        assert refused["details"][0] == {"field": missing, "code": "REQUIRED", "message": f"{missing} is required."}

    @pytest.mark.advisory("GHSA-5v7g-9h8f-8pgg")
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("is_active", True),
            ("role", "owner"),
            ("app_id", "00000000-0000-0000-0000-000000000000"),
            ("member_id", "somebody"),
            ("is_guest", True),
            ("custom_data", {}),
            ("password_hash", "x"),
            ("__proto__", {}),
            ("authData", {}),
        ],
    )
    async def test_nothing_else_can_be_set(self, app: App, field: str, value: Any):
        body = assert_error(await post(app, SIGN_UP, {**ADA, field: value}), 400, "VALIDATION_FAILED")
        assert body["details"][0]["field"] == field
        assert body["details"][0]["code"] == "UNKNOWN_FIELD"

    @pytest.mark.parametrize("nickname", ["n" * 101, 1, ["x"], {"x": 1}, "a\0b"])
    async def test_a_bad_nickname_is_refused(self, app: App, nickname: Any):
        assert_error(await post(app, SIGN_UP, {**ADA, "nickname": nickname}), 400, "VALIDATION_FAILED")

    async def test_a_password_is_stored_as_argon2id(self, app: App):
        member = await app.member()
        stored = await run_sql(
            app.server, "select password_hash from pilotis.members where member_id = $1", member["member_id"]
        )
        # The tests' servers hash cheaply; what others do by default is `kit/test_passwords`.
        assert stored.startswith(f"$argon2id$v=19$m={GENEROUS['PILOTIS_LIMITS_ARGON2_MEMORY_KIB']},t=2,p=1$")


class TestBodies:
    @pytest.mark.parametrize("path", [SIGN_UP, SIGN_IN])
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b'{"login_id": "ada", "password": "correct horse"} x',
            b'{"login_id": "ada",}',
            b'{"login_id": NaN, "password": "correct horse"}',
            b'{"login_id": "\\ud800", "password": "correct horse"}',
            b'{"login_id": "ada", "password": "\\udfff horse"}',
            b'{"login_id": "ada\xff", "password": "correct horse"}',
            b'{"login_id": "a\x00da", "password": "correct horse"}',
        ],
    )
    async def test_what_is_no_json_is_refused(self, app: App, path: str, body: bytes):
        assert_error(await post_text(app, path, body), 400, "MALFORMED_JSON")

    @pytest.mark.parametrize("body", [b"[]", b'"ada"', b"1", b"null", b"true", b"[" * 40_000])
    async def test_what_is_no_object_is_refused(self, app: App, body: bytes):
        assert_error(await post_text(app, SIGN_UP, body), 400, "VALIDATION_FAILED")

    async def test_of_two_equal_keys_the_last_counts_for_the_check_and_for_the_use(self, app: App):
        body = b'{"login_id": "eve", "login_id": "ada", "password": "correct horse", "password": "short"}'
        assert_error(await post_text(app, SIGN_UP, body), 400, "VALIDATION_FAILED")
        body = b'{"login_id": "eve", "login_id": "ada", "password": "short", "password": "correct horse"}'
        assert (await post_text(app, SIGN_UP, body)).status_code == 201
        assert (await post(app, SIGN_IN, ADA)).status_code == 200

    async def test_a_form_is_not_taken_for_json(self, app: App):
        async with app.client() as client:
            answer = await client.post(SIGN_IN, data=ADA)
        assert_error(answer, 415, "UNSUPPORTED_MEDIA_TYPE")


class TestSignIn:
    async def test_it_answers_200_in_the_shape_of_sign_up(self, app: App):
        made = (await post(app, SIGN_UP, {**ADA, "nickname": "Ada"})).json()
        answer = await post(app, SIGN_IN, ADA)
        assert answer.status_code == 200
        assert set(answer.json()) == set(made)
        assert (answer.json()["member_id"], answer.json()["nickname"]) == (made["member_id"], "Ada")
        assert answer.json()["access_token"] != made["access_token"]

    @pytest.mark.advisory("GHSA-w54v-hf9p-8856")
    async def test_an_unknown_login_id_gets_the_very_answer_of_a_wrong_password(self, app: App):
        await app.member()
        wrong = assert_error(await post(app, SIGN_IN, {**ADA, "password": "wrong horse"}), 401, "INVALID_CREDENTIALS")
        unknown = assert_error(await post(app, SIGN_IN, {**ADA, "login_id": "eve"}), 401, "INVALID_CREDENTIALS")
        assert wrong["message"] == unknown["message"]

    @pytest.mark.advisory("GHSA-mmpq-5hcv-hf2v")
    async def test_an_unknown_login_id_takes_about_the_time_of_a_wrong_password(self, app: App):
        ratios = []
        # On a busy machine one comparison may come out by chance; an answer without argon2 takes a tenth each time.
        while len(ratios) < 5 and not any(ratio > 0.4 for ratio in ratios):
            known, unknown = f"ada {len(ratios)}", f"eve {len(ratios)}"
            await app.member(known)
            ratios.append(await self.time_of(app, unknown, known))
        assert any(ratio > 0.4 for ratio in ratios), ratios

    async def time_of(self, app: App, one: str, other: str) -> float:
        """The median time that a wrong password for one login_id takes, in that of another, tried by turns."""
        seconds: dict[str, list[float]] = {one: [], other: []}
        async with app.client() as client:
            for _ in range(9):
                for login_id, taken in seconds.items():
                    started = time.perf_counter()
                    await client.post(SIGN_IN, json={"login_id": login_id, "password": "wrong horse"})
                    taken.append(time.perf_counter() - started)
        return median(seconds[one]) / median(seconds[other])

    async def test_the_log_names_no_secret(self, app: App):
        member = await app.member("ada-in-the-log", "password-in-the-log")
        await post(app, SIGN_IN, {"login_id": "ada-in-the-log", "password": "wrong-in-the-log"})
        await post(app, RE_ISSUE, token=member["refresh_token"])
        logs = app.server.logs()
        assert SIGN_IN in logs
        assert "-in-the-log" not in logs
        assert not any(member[token] in logs for token in ("access_token", "refresh_token"))

    @pytest.mark.advisory("GHSA-mmpq-5hcv-hf2v")
    async def test_an_unknown_login_id_costs_an_argon2_as_well(self):
        passwords = Passwords()
        checked: list[str] = []
        verify = passwords._matches
        passwords._matches = lambda stored, password: checked.append(stored) or verify(stored, password)  # type: ignore[method-assign]
        try:
            stored = await passwords.hash("correct horse")
            assert await passwords.verify(stored, "correct horse")
            assert not await passwords.verify(stored, "wrong horse")
            assert not await passwords.verify(None, "wrong horse")
        finally:
            passwords.close()
        cost = [hash_.split("$")[1:4] for hash_ in checked]
        assert cost == [["argon2id", "v=19", "m=19456,t=2,p=1"]] * 3
        assert [len(part) for part in checked[2].split("$")] == [len(part) for part in stored.split("$")]

    async def test_a_guest_has_no_password_to_sign_in_with(self, app: App):
        made = await guest(app)
        body = {"login_id": made["member_id"], "password": "nobody has this"}
        assert_error(await post(app, SIGN_IN, body), 401, "INVALID_CREDENTIALS")

    async def test_a_member_of_one_app_is_unknown_in_another(self, app: App, other_app: App):
        await app.member()
        assert_error(await post(other_app, SIGN_IN, ADA), 401, "INVALID_CREDENTIALS")

    @pytest.mark.advisory("GHSA-5fw2-8jcv-xh87")
    @pytest.mark.parametrize("password", [{"$ne": None}, {"$regex": ".*"}, ["correct horse"], True, 1, None])
    async def test_an_operator_is_no_password(self, app: App, password: Any):
        await app.member()
        assert_error(await post(app, SIGN_IN, {**ADA, "password": password}), 400, "VALIDATION_FAILED")

    async def test_a_deactivated_member_is_told_so_only_with_the_right_password(self, app: App):
        member = await app.member()
        await deactivate(app, member["member_id"])
        assert_error(await post(app, SIGN_IN, ADA), 403, "MEMBER_INACTIVE")
        assert_error(await post(app, SIGN_IN, {**ADA, "password": "wrong horse"}), 401, "INVALID_CREDENTIALS")


class TestGuests:
    async def test_a_guest_has_its_own_form_of_id_and_no_nickname(self, app: App):
        made = await guest(app)
        assert set(made) == {"member_id", "access_token", "refresh_token"}
        assert made["member_id"].startswith("guest_")
        record = (await me(app.server, made["access_token"])).json()
        assert record == {"member_id": made["member_id"], "nickname": None, "is_active": True, "custom_data": {}}

    async def test_promotion_keeps_the_member_its_rows_and_its_custom_data(self, app: App):
        made = await guest(app)
        table = await app.table({"text": "string"}, "Creator")
        row = await app.row(table, {"text": "mine"}, made["access_token"])
        async with app.client(made["access_token"]) as client:
            await client.patch(CUSTOM_DATA, json={"custom_data": {"theme": "dark"}})
            promoted = await client.post(SIGN_UP, json={**ADA, "nickname": "Ada"})
        assert promoted.status_code == 201
        assert promoted.json()["member_id"] == made["member_id"]
        signed_in = (await post(app, SIGN_IN, ADA)).json()
        assert signed_in["member_id"] == made["member_id"]
        record = (await me(app.server, signed_in["access_token"])).json()
        assert (record["nickname"], record["custom_data"]) == ("Ada", {"theme": "dark"})
        async with app.client(signed_in["access_token"]) as client:
            rows = (await client.get(f"/v1/public/tables/{table}/data")).json()
        assert [found["id"] for found in rows["data"]] == [row["id"]]

    async def test_promotion_without_a_nickname_keeps_and_tells_the_one_there_is(self, app: App):
        made = await guest(app)
        async with owner_of(app).client(app) as console:
            changed = await console.patch(f"/members/{made['member_id']}", json={"nickname": "Countess"})
        assert changed.status_code == 200
        promoted = (await post(app, SIGN_UP, ADA, made["access_token"])).json()
        assert promoted["nickname"] == "Countess"
        assert (await me(app.server, promoted["access_token"])).json()["nickname"] == "Countess"

    async def test_promotion_ends_the_guests_own_tokens(self, app: App):
        made = await guest(app)
        promoted = (await post(app, SIGN_UP, ADA, made["access_token"])).json()
        assert_error(await me(app.server, made["access_token"]), 401, "INVALID_TOKEN")
        assert_error(await post(app, RE_ISSUE, token=made["refresh_token"]), 401, "INVALID_TOKEN")
        assert (await me(app.server, promoted["access_token"])).status_code == 200

    async def test_a_promoted_guest_has_the_lifetimes_of_a_member(self, app: App):
        made = await guest(app)
        promoted = (await post(app, SIGN_UP, ADA, made["access_token"])).json()
        claims = claims_of(promoted["refresh_token"])
        assert claims["exp"] - claims["iat"] == 30 * 86400

    async def test_a_member_cannot_be_promoted(self, app: App):
        member = await app.member()
        answer = await post(app, SIGN_UP, {**ADA, "login_id": "eve"}, member["access_token"])
        assert_error(answer, 409, "NOT_A_GUEST")

    async def test_a_guest_keeps_its_token_when_the_login_id_is_taken(self, app: App):
        await app.member()
        made = await guest(app)
        assert_error(await post(app, SIGN_UP, ADA, made["access_token"]), 409, "LOGIN_ID_TAKEN")
        assert (await me(app.server, made["access_token"])).status_code == 200

    async def test_a_guest_of_another_app_cannot_be_promoted_here(self, app: App, other_app: App):
        made = await guest(other_app)
        assert_error(await post(app, SIGN_UP, ADA, made["access_token"]), 401, "INVALID_TOKEN")

    async def test_a_refresh_token_does_not_promote(self, app: App):
        made = await guest(app)
        assert_error(await post(app, SIGN_UP, ADA, made["refresh_token"]), 401, "INVALID_TOKEN")


class TestOwnRecord:
    async def test_it_shows_no_more_than_the_interface_names(self, app: App):
        member = await app.member()
        answer = await me(app.server, member["access_token"])
        assert answer.status_code == 200
        assert answer.json() == {
            "member_id": member["member_id"],
            "nickname": None,
            "is_active": True,
            "custom_data": {},
        }

    async def test_it_needs_an_access_token(self, app: App):
        async with app.client() as client:
            assert_error(await client.get(ME), 401, "TOKEN_REQUIRED")

    @pytest.mark.advisory("GHSA-56p6-qw3c-fq2g")
    async def test_a_deactivated_member_is_shut_out_at_once(self, app: App):
        member = await app.member()
        assert (await me(app.server, member["access_token"])).status_code == 200
        await deactivate(app, member["member_id"])
        assert_error(await me(app.server, member["access_token"]), 403, "MEMBER_INACTIVE")
        assert_error(await post(app, RE_ISSUE, token=member["refresh_token"]), 403, "MEMBER_INACTIVE")
        assert_error(await post(app, SIGN_OUT, token=member["access_token"]), 403, "MEMBER_INACTIVE")
        async with app.client(member["access_token"]) as client:
            assert_error(await client.get("/v1/public/tables"), 403, "MEMBER_INACTIVE")
            answer = await client.patch(CUSTOM_DATA, json={"custom_data": {}})
            assert_error(answer, 403, "MEMBER_INACTIVE")


class TestCustomData:
    async def merge(self, app: App, token: str, change: Any) -> httpx.Response:
        async with app.client(token) as client:
            return await client.patch(CUSTOM_DATA, json={"custom_data": change})

    async def test_a_change_is_merged_and_the_result_answered(self, app: App):
        member = await app.member()
        token = member["access_token"]
        await self.merge(app, token, {"a": 1, "b": 2})
        answer = await self.merge(app, token, {"b": 3, "c": [None, {"d": None}]})
        merged = {"a": 1, "b": 3, "c": [None, {"d": None}]}
        assert answer.status_code == 200
        assert answer.json() == {"member_id": member["member_id"], "custom_data": merged}
        assert (await me(app.server, token)).json()["custom_data"] == merged

    @pytest.mark.parametrize(
        ("stored", "patch", "merged"),
        [  # RFC 7396, appendix A, those between objects
            ({"a": "b"}, {"a": "c"}, {"a": "c"}),
            ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
            ({"a": "b"}, {"a": None}, {}),
            ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
            ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
            ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
            ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
            ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
            ({"a": "foo"}, {"b": None}, {"a": "foo"}),
            ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
            ({"a": 1}, {}, {"a": 1}),
            ({"a": 1}, {"a": {"b": None, "c": {"d": 2}}}, {"a": {"c": {"d": 2}}}),
        ],
    )
    async def test_it_is_a_json_merge_patch(self, app: App, stored: Any, patch: Any, merged: Any):
        token = (await app.member())["access_token"]
        await self.merge(app, token, stored)
        assert (await self.merge(app, token, patch)).json()["custom_data"] == merged

    @pytest.mark.advisory("GHSA-p6h4-93qp-jhcm")
    @pytest.mark.parametrize(
        "data",
        [
            {"$ne": None, "$set": {"is_active": False}},
            {"__proto__": {"x": 1}, "constructor": 1, "__class__": "y"},
            {"a'b": 1, 'a"b': 2, "a->>'b": 3, ";--": 4, "": 5, "\\u0000": "\\u0000"},
            {"한국어": "👩‍👩‍👧", "n": [1.5, -0.25, 10**15, True, ""]},
        ],
    )
    async def test_data_stays_data(self, app: App, data: dict[str, Any]):
        token = (await app.member())["access_token"]
        kept = {name: value for name, value in data.items() if value is not None}
        assert (await self.merge(app, token, data)).json()["custom_data"] == kept

    @pytest.mark.parametrize("change", [None, 1, "x", True, [], [{"a": 1}]])
    async def test_what_is_no_object_is_refused(self, app: App, change: Any):
        token = (await app.member())["access_token"]
        assert_error(await self.merge(app, token, change), 400, "VALIDATION_FAILED")

    @pytest.mark.parametrize("change", [{"a": "\0"}, {"\0": 1}, {"a": [{"b": "x\0y"}]}])
    async def test_the_character_0_is_refused(self, app: App, change: Any):
        token = (await app.member())["access_token"]
        assert_error(await self.merge(app, token, change), 400, "VALIDATION_FAILED")

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            (b'{"a": 1e400}', "VALIDATION_FAILED"),
            (b'{"a": NaN}', "MALFORMED_JSON"),
            (b'{"a":' * 64 + b"1" + b"}" * 64, "MALFORMED_JSON"),
        ],
    )
    async def test_numbers_and_nesting_are_bounded(self, app: App, text: bytes, code: str):
        token = (await app.member())["access_token"]
        headers = {"Content-Type": "application/json"}
        async with app.client(token) as client:
            answer = await client.patch(CUSTOM_DATA, content=b'{"custom_data": ' + text + b"}", headers=headers)
        assert_error(answer, 400, code)

    async def test_numbers_come_out_as_they_went_in(self, app: App):
        token = (await app.member())["access_token"]
        headers = {"Content-Type": "application/json"}
        number = b"12345678901234567890.123456789012345678901"
        async with app.client(token) as client:
            await client.patch(CUSTOM_DATA, content=b'{"custom_data": {"a": %s}}' % number, headers=headers)
            answer = await client.patch(CUSTOM_DATA, content=b'{"custom_data": {"b": 1e300}}', headers=headers)
        assert number in answer.content
        assert answer.json()["custom_data"]["b"] == 10**300

    async def test_the_result_has_at_most_64_kb(self, app: App):
        token = (await app.member())["access_token"]
        fitting = 64 * 1024 - len('{"a": ""}')
        assert (await self.merge(app, token, {"a": "x" * fitting})).status_code == 200
        assert_error(await self.merge(app, token, {"a": "x" * (fitting + 1)}), 413, "PAYLOAD_TOO_LARGE")
        assert_error(await self.merge(app, token, {"b": 1}), 413, "PAYLOAD_TOO_LARGE")
        assert (await self.merge(app, token, {"a": None, "b": 1})).json()["custom_data"] == {"b": 1}

    async def test_unknown_fields_beside_it_are_refused(self, app: App):
        token = (await app.member())["access_token"]
        async with app.client(token) as client:
            answer = await client.patch(CUSTOM_DATA, json={"custom_data": {}, "is_active": True})
        assert_error(answer, 400, "VALIDATION_FAILED")


class TestSignOut:
    async def test_both_tokens_are_dead_at_once(self, app: App):
        member = await app.member()
        answer = await post(app, SIGN_OUT, token=member["access_token"])
        assert answer.status_code == 200
        assert set(answer.json()) == {"message"}
        assert_error(await me(app.server, member["access_token"]), 401, "INVALID_TOKEN")
        assert_error(await post(app, RE_ISSUE, token=member["refresh_token"]), 401, "INVALID_TOKEN")
        assert_error(await post(app, SIGN_OUT, token=member["access_token"]), 401, "INVALID_TOKEN")

    async def test_another_sign_in_of_the_member_goes_on(self, app: App):
        member = await app.member()
        other = (await post(app, SIGN_IN, ADA)).json()
        await post(app, SIGN_OUT, token=member["access_token"])
        assert (await me(app.server, other["access_token"])).status_code == 200

    async def test_it_needs_the_public_key_and_the_token(self, app: App, other_app: App):
        member = await app.member()
        async with plain_client(app.server.url) as client:
            answer = await client.post(SIGN_OUT, headers=bearer(member["access_token"]))
        assert_error(answer, 401, "PUBLIC_KEY_REQUIRED")
        assert_error(await post(app, SIGN_OUT), 401, "TOKEN_REQUIRED")
        assert_error(await post(other_app, SIGN_OUT, token=member["access_token"]), 401, "INVALID_TOKEN")
        assert_error(await post(app, SIGN_OUT, token=member["refresh_token"]), 401, "INVALID_TOKEN")
        assert (await me(app.server, member["access_token"])).status_code == 200


class TestSwitchedOffWays:
    async def test_without_id_and_password_neither_sign_up_nor_sign_in_nor_promotion_works(self, app: App):
        member = await app.member()
        made = await guest(app)
        await set_auth(app, allow_id_password_login=False)
        assert_error(await post(app, SIGN_UP, {**ADA, "login_id": "eve"}), 403, "LOGIN_DISABLED")
        assert_error(await post(app, SIGN_IN, ADA), 403, "LOGIN_DISABLED")
        assert_error(await post(app, SIGN_UP, ADA, made["access_token"]), 403, "LOGIN_DISABLED")
        assert (await post(app, GUEST)).status_code == 201
        assert (await me(app.server, member["access_token"])).status_code == 200

    async def test_without_guests_members_sign_in_as_before(self, app: App):
        await app.member()
        await set_auth(app, allow_guest_login=False)
        assert_error(await post(app, GUEST), 403, "LOGIN_DISABLED")
        assert (await post(app, SIGN_IN, ADA)).status_code == 200


class TestPublicKey:
    @pytest.mark.parametrize("path", [SIGN_UP, SIGN_IN, GUEST])
    async def test_it_is_required_and_must_be_known(self, app: App, path: str):
        async with plain_client(app.server.url) as client:
            assert_error(await client.post(path, json=ADA), 401, "PUBLIC_KEY_REQUIRED")
            for key in ("pk_unknown", "x", "", app.secret_key, app.public_key[:-1], app.public_key + "A"):
                answer = await client.post(path, json=ADA, headers={"X-Public-Key": key})
                assert_error(answer, 401, "INVALID_PUBLIC_KEY")


class TestManyAtOnce:
    async def test_past_the_queue_passwords_are_refused_with_503(self):
        passwords = Passwords(max_waiting=3)
        try:
            results = await asyncio.gather(
                *(passwords.verify(None, "wrong horse") for _ in range(5)), return_exceptions=True
            )
            refused = [result for result in results if isinstance(result, Exception)]
            assert [(error.status, error.headers) for error in refused] == [(503, {"Retry-After": "1"})] * 2
            assert not await passwords.verify(None, "wrong horse")
        finally:
            passwords.close()

    async def test_the_event_loop_runs_on_while_passwords_are_hashed(self):
        # So many for each core that even the fastest machine takes a while.
        count, turns = 20 * (os.cpu_count() or 1), 0
        passwords = Passwords(max_waiting=count)
        hashing = asyncio.gather(*(passwords.hash("correct horse") for _ in range(count)))
        while not hashing.done():
            turns += 1
            await asyncio.sleep(0.001)
        passwords.close()
        assert turns > 10


@pytest.mark.parametrize(
    "character",
    ["\u200b", "\u200d", "\u2060", "\ufeff", "\u202e", "\u2066", "\u061c", "\u200f", "\u00ad", "\U000e0041"],
)
async def test_a_login_id_has_no_bidirectional_or_zero_width_characters(app: App, character: str):
    for login_id in (f"ad{character}a", f"{character}ada", f"ada{character}"):
        body = {"login_id": login_id, "password": "correct horse"}
        error = assert_error(await post(app, SIGN_UP, body), 400, "VALIDATION_FAILED")
        assert error["details"][0]["field"] == "login_id"
    await app.member("אדה")
    await app.member("आदा")
