"""A server that dies between a commit and the fan-out loses no event."""

from pathlib import Path
from uuid import UUID

from tests.conftest import first_console_user, new_app
from tests.database import connect
from tests.events.listening import Recorder, listening_node, target
from tests.support import Server
from tests.waiting import until


async def test_what_a_killed_server_had_committed_arrives_after_the_next_start(tmp_path: Path):
    """The server knows nothing of the test's kind of target, so the events wait until it is killed."""
    server = Server(tmp_path / "data").start()
    try:
        app = new_app(server, first_console_user(server))
        table_id = await app.table({"n": "int"})
        async with listening_node(server, Recorder()) as node:
            await node.services.events.listen(target(app, ["*"]))
        member = await app.member()
        rows = {(await app.row(table_id, {"n": number}))["id"] for number in range(3)}
        server.kill()
        server.start()
        recorder = Recorder()
        async with listening_node(server, recorder):
            await until(lambda: len(recorder.events) == 4)
            assert recorder.types().count("member.created") == 1
            told = [data for data in recorder.data() if "row" in data]
            assert {data["row"]["id"] for data in told} == rows
            members = [data["member"]["member_id"] for data in recorder.data() if "member" in data]
            assert members == [member["member_id"]]
            connection = await connect(server)
            left = "select count(*) from pilotis.events where app_id = $1 and dispatched_at is null"
            assert await connection.fetchval(left, UUID(app.app_id)) == 0
            await connection.close()
    finally:
        server.stop()
