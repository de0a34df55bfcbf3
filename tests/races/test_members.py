"""Concurrent requests must have the same result as if they ran one after another."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest

from tests.backstage import bearer, me, run_sql
from tests.support import App, plain_client

SIGN_UP = "/v1/public/app-members/signup"
RE_ISSUE = "/v1/auth/re-issue"


def statuses(answers: list[httpx.Response]) -> Counter[int]:
    return Counter(answer.status_code for answer in answers)


async def re_issued(client: httpx.AsyncClient, token: str, times: int = 1) -> list[httpx.Response]:
    return await asyncio.gather(*(client.post(RE_ISSUE, headers=bearer(token)) for _ in range(times)))


async def guest(app: App) -> dict[str, Any]:
    async with app.client() as client:
        return (await client.post("/v1/public/app-members")).json()


@pytest.mark.advisory("parse-server#10150")
async def test_50_sign_ups_with_one_login_id_make_one_member(app: App):
    body = {"login_id": "ada", "password": "correct horse"}
    async with app.client() as client:
        answers = await asyncio.gather(*(client.post(SIGN_UP, json=body) for _ in range(50)))
    assert statuses(answers) == {201: 1, 409: 49}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"LOGIN_ID_TAKEN"}
    made = next(answer.json() for answer in answers if answer.status_code == 201)
    stored = await run_sql(app.server, "select array_agg(member_id) from pilotis.members where app_id = $1", app.app_id)
    assert stored == [made["member_id"]]


@pytest.mark.advisory("GHSA-r3xq-68wh-gwvh", "CVE-2026-43930")
async def test_20_promotions_of_one_guest_make_one_member(app: App):
    made = await guest(app)
    async with app.client(made["access_token"]) as client:
        bodies = [{"login_id": f"ada {number}", "password": "correct horse"} for number in range(20)]
        answers = await asyncio.gather(*(client.post(SIGN_UP, json=body) for body in bodies))
    codes = Counter(answer.json().get("code", "made") for answer in answers)
    assert codes["made"] == 1
    assert set(codes) <= {"made", "NOT_A_GUEST", "INVALID_TOKEN"}
    winner = next(index for index, answer in enumerate(answers) if answer.status_code == 201)
    assert answers[winner].json()["member_id"] == made["member_id"]
    statement = "select array_agg(login_id) from pilotis.members where app_id = $1"
    assert await run_sql(app.server, statement, app.app_id) == [f"ada {winner}"]
    assert (await me(app.server, made["access_token"])).status_code == 401
    assert (await me(app.server, answers[winner].json()["access_token"])).status_code == 200


@pytest.mark.advisory("GHSA-r3xq-68wh-gwvh", "CVE-2026-43930")
async def test_20_uses_of_one_refresh_token_get_one_successor(app: App):
    member = await app.member()
    async with plain_client(app.server.url) as client:
        answers = await re_issued(client, member["refresh_token"], 20)
        assert statuses(answers) == {200: 20}
        assert len({answer.content for answer in answers}) == 1
        pair = answers[0].json()
        assert (await me(app.server, pair["access_token"])).status_code == 200
        assert statuses(await re_issued(client, pair["refresh_token"])) == {200: 1}
    statement = "select count(*) from pilotis.sessions where app_id = $1 and revoked_at is null"
    assert await run_sql(app.server, statement, app.app_id) == 1


async def test_sign_out_wins_over_refreshing(app: App):
    for _ in range(5):
        member = await guest(app)
        async with app.client() as client:
            sign_out = client.post("/v1/public/app-members/signout", headers=bearer(member["access_token"]))
            refreshing = re_issued(client, member["refresh_token"], 8)
            signed_out, answers = await asyncio.gather(sign_out, refreshing)
            assert signed_out.status_code == 200
            assert set(statuses(answers)) <= {200, 401}
            for pair in [answer.json() for answer in answers if answer.status_code == 200]:
                assert (await me(app.server, pair["access_token"])).status_code == 401
                assert statuses(await re_issued(client, pair["refresh_token"])) == {401: 1}


@pytest.mark.advisory("GHSA-56p6-qw3c-fq2g")
async def test_deactivation_wins_over_refreshing(app: App):
    for _ in range(5):
        member = await guest(app)
        statement = "update pilotis.members set is_active = false where member_id = $1"
        async with app.client() as client:
            deactivating = run_sql(app.server, statement, member["member_id"])
            refreshing = re_issued(client, member["refresh_token"], 8)
            _, answers = await asyncio.gather(deactivating, refreshing)
            assert set(statuses(answers)) <= {200, 403}
            assert statuses(await re_issued(client, member["refresh_token"])) == {403: 1}
            for pair in [answer.json() for answer in answers if answer.status_code == 200]:
                assert (await me(app.server, pair["access_token"])).status_code == 403


async def test_no_merge_into_custom_data_is_lost(app: App):
    member = await guest(app)
    async with app.client(member["access_token"]) as client:
        path = "/v1/public/app-members/me/custom-data"
        changes = [{"custom_data": {f"k{number}": number, "deep": {f"k{number}": number}}} for number in range(30)]
        answers = await asyncio.gather(*(client.patch(path, json=change) for change in changes))
    assert statuses(answers) == {200: 30}
    merged = (await me(app.server, member["access_token"])).json()["custom_data"]
    everything = {f"k{number}": number for number in range(30)}
    assert merged == {**everything, "deep": everything}
