"""The first-run link creates one console user, however many concurrent requests use it."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.backstage import run_sql
from tests.conftest import PASSWORD
from tests.support import Server, assert_error, plain_client


@pytest.mark.advisory("GHSA-r3xq-68wh-gwvh")
async def test_20_uses_of_the_first_run_link_make_one_user(tmp_path: Path):
    server = Server(tmp_path / "data").start()
    try:
        async with plain_client(server.url) as client:
            guessed = {"email": "eve@example.com", "password": PASSWORD, "token": "guessed"}
            assert_error(await client.post("/v1/auth/signup", json=guessed), 403, "INVALID_INVITATION")
            bodies = [
                {"email": f"user{number}@example.com", "password": PASSWORD, "token": server.setup_token}
                for number in range(20)
            ]
            answers = await asyncio.gather(*(client.post("/v1/auth/signup", json=body) for body in bodies))
        assert Counter(answer.status_code for answer in answers) == {201: 1, 403: 19}
        assert await run_sql(server, "select count(*) from pilotis.users") == 1
        owners = "select array_agg(distinct user_id::text) from pilotis.app_users where role = 'owner'"
        winner = next(answer.json() for answer in answers if answer.status_code == 201)
        assert await run_sql(server, owners) == [winner["user_id"]]
    finally:
        server.stop()
