"""Functions, section 6: the bytes of files through `ctx.api`."""

import pytest

from pilotis.http.api.inside import MAX_ANSWER
from tests.acceptance.test_files import put_at, storage
from tests.files.pictures import BLUE, RED, bands, encoded
from tests.functions.support import Functions
from tests.support import App

WRITES = {
    "javascript": """
export default async ({ storage, path, size, scope }, ctx) => {
  const files = ctx.api.files(storage);
  const data = new Uint8Array(size).map((_, at) => at % 251);
  const item = await files.write(path, data, "application/x-bytes");
  const read = await files.read(path);
  const same = read.every((byte, at) => byte === data[at]);
  return { name: item.name, type: item.mime_type, size: read.length, same };
};""",
    "python": """
async def main(payload, ctx):
    files = ctx.api.files(payload["storage"])
    data = bytes(at % 251 for at in range(payload["size"]))
    item = await files.write(payload["path"], data, "application/x-bytes")
    read = await files.read(payload["path"])
    return {"name": item["name"], "type": item["mime_type"], "size": len(read), "same": read == data}
""",
}
READS = """
export default async ({ storage, path }, ctx) => {
  try {
    return (await ctx.api.files(storage).read(path)).length;
  } catch (error) {
    return error.code;
  }
};"""


@pytest.mark.parametrize("runtime", ["javascript", "python"])
async def test_a_function_writes_and_reads_files(functions: Functions, runtime: str):
    place = (await storage(functions.app)).rpartition("/")[2]
    await functions.made("copies", WRITES[runtime], runtime)
    for size in (0, 100_000, 100_001):
        given = {"storage": place, "path": "reports/caf\u00e9 1.bin", "size": size}
        wanted = {"name": "caf\u00e9 1.bin", "type": "application/x-bytes", "size": size, "same": True}
        assert await functions.value("copies", given) == wanted
    too_large = {"storage": place, "path": "large.bin", "size": 5 * 1024 * 1024 + 1}
    assert "at most 5242880 bytes" in (await functions.result("copies", too_large))["error"]


async def test_a_function_reads_what_its_scopes_and_its_app_permit(functions: Functions, other_app: App):
    place = (await storage(functions.app)).rpartition("/")[2]
    foreign = await storage(other_app)
    async with other_app.client() as client:
        await put_at(client, foreign, "a.txt")
    await functions.made("writes", WRITES["javascript"])
    await functions.made("reads", READS)
    await functions.made("blind", READS, scopes=["rows:read", "files:write"])
    await functions.made("mute", WRITES["javascript"], scopes=["rows:read", "files:read"])
    written = {"storage": place, "path": "a.txt", "size": 5}
    await functions.value("writes", written)
    assert await functions.value("reads", {"storage": place, "path": "a.txt"}) == 5
    assert await functions.value("reads", {"storage": place, "path": "b.txt"}) == "FILE_NOT_FOUND"
    assert await functions.value("reads", {"storage": foreign.rpartition("/")[2], "path": "a.txt"}) == "FILE_NOT_FOUND"
    assert await functions.value("blind", {"storage": place, "path": "a.txt"}) == "SCOPE_REQUIRED"
    assert (await functions.result("mute", written))["error_code"] == "FUNCTION_ERROR"


async def test_a_function_reads_private_files_and_its_caller_does_not(functions: Functions):
    base = await storage(functions.app, read_access="Secret")
    place = base.rpartition("/")[2]
    await functions.made("writes", WRITES["javascript"])
    await functions.value("writes", {"storage": place, "path": "private/a.txt", "size": 5})
    await functions.made("reads", READS)
    await functions.made("reads-as", READS.replace("ctx.api", "ctx.asCaller"))
    assert await functions.value("reads", {"storage": place, "path": "private/a.txt"}) == 5
    assert await functions.value("reads-as", {"storage": place, "path": "private/a.txt"}) == "SECRET_KEY_REQUIRED"


async def test_a_function_receives_files_up_to_a_size_and_variants_of_images(functions: Functions):
    base = await storage(functions.app)
    place = base.rpartition("/")[2]
    async with functions.app.client() as client:
        await put_at(client, base, "largest.bin", bytes(MAX_ANSWER))
        await put_at(client, base, "larger.bin", bytes(MAX_ANSWER + 1))
        await put_at(client, base, "picture.png", encoded(bands(64, 48, RED, BLUE)))
    await functions.made("reads", READS)
    assert await functions.value("reads", {"storage": place, "path": "largest.bin"}) == MAX_ANSWER
    assert await functions.value("reads", {"storage": place, "path": "larger.bin"}) == "PAYLOAD_TOO_LARGE"
    source = """
export default async ({ link }, ctx) => {
  const answer = await ctx.api.fetch(`${link}?width=16&format=webp`);
  return [answer.status, answer.headers.get("content-type")];
};"""
    await functions.made("variants", source)
    assert await functions.value("variants", {"link": f"/files/{place}/p/picture.png"}) == [200, "image/webp"]
