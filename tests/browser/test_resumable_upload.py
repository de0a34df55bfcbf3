"""Resumable uploads by tus-js-client in a real browser, from another origin than the server's."""

import functools
import hashlib
import http.server
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser

from tests.acceptance.test_files import storage
from tests.files.npm import NEEDS_NODE, modules
from tests.serving import serving
from tests.support import App
from tests.waiting import PATIENCE

__all__ = ["modules"]

pytestmark = NEEDS_NODE

# Uploads 3 MiB in chunks, stops after one, and continues in a second call with the state in localStorage.
PAGE = """<!doctype html><title>upload</title><script src="tus.min.js"></script><script>
const file = new File([new Uint8Array(3 << 20).map((_, at) => at % 251)], "film.bin", { type: "video/mp4" });
let fileId;
const sent = [];
function upload(given, stopAfter) {
  return new Promise((resolve, reject) => {
    const upload = new tus.Upload(file, {
      endpoint: `${given.base}/tus`,
      headers: { "X-Public-Key": given.key },
      metadata: { filename: file.name, filetype: file.type },
      chunkSize: 1 << 20,
      retryDelays: Array(400).fill(250),
      onAfterResponse(request, response) {
        fileId = response.getHeader("Upload-File-Id") ?? fileId;
        sent.push([request.getMethod(), response.getStatus(), response.getHeader("Upload-Offset")]);
      },
      onChunkComplete: () => stopAfter && upload.abort().then(() => resolve(sent.splice(0))),
      onSuccess: () => resolve(sent.splice(0)),
      onError: reject,
    });
    upload.findPreviousUploads().then(([earlier]) => {
      if (earlier) upload.resumeFromPreviousUpload(earlier);
      upload.start();
    });
  });
}
async function complete(given) {
  const headers = { "X-Public-Key": given.key, "Content-Type": "application/json" };
  const body = JSON.stringify({ file_id: fileId });
  return (await fetch(`${given.base}/complete-upload`, { method: "POST", headers, body })).json();
}
</script>"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def page_url(modules: Path, tmp_path: Path) -> Iterator[str]:
    """The address of the page, on its own port."""
    (tmp_path / "index.html").write_text(PAGE)
    shutil.copy(modules / "node_modules" / "tus-js-client" / "dist" / "tus.min.js", tmp_path)
    with serving(functools.partial(Quiet, directory=tmp_path)) as url:
        yield f"{url}/"


async def test_a_page_of_another_origin_uploads_and_goes_on(browser: Browser, page_url: str, app: App):
    base = await storage(app)
    page = await browser.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    await page.goto(page_url)
    given = json.dumps({"base": f"{app.server.url}{base}", "key": app.public_key})
    first = await page.evaluate(f"upload({given}, true)")
    assert first[:2] == [["POST", 201, "0"], ["PATCH", 204, str(1 << 20)]]
    second = await page.evaluate(f"upload({given}, false)")
    assert "POST" not in {method for method, _, _ in second}, "It started again."
    assert second[0][:2] == ["HEAD", 200]
    assert second[-1] == ["PATCH", 204, str(3 << 20)]
    item = await page.evaluate(f"complete({given})")
    data = bytes(at % 251 for at in range(3 << 20))
    assert (item["name"], item["mime_type"], item["size"]) == ("film.bin", "video/mp4", len(data))
    assert item["sha256"] == hashlib.sha256(data).hexdigest()
    async with httpx.AsyncClient(verify=False) as client:
        assert (await client.get(item["url"])).content == data
