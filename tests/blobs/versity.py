"""The Versity S3 Gateway over a directory: a second real S3 server, for the long form of the tests.

It is built with Go once, under the user's cache directory.
"""

import base64
import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from pilotis.blobs.check import ask
from pilotis.blobs.presign import Presigner
from tests import shared
from tests.blobs import swift
from tests.waiting import reserved_port, wait_until

VERSION = "v1.8.0"
_CORS = f"""<CORSConfiguration><CORSRule>
<AllowedOrigin>{swift.ALLOWED_ORIGIN}</AllowedOrigin><AllowedMethod>PUT</AllowedMethod><AllowedHeader>*</AllowedHeader>
</CORSRule></CORSConfiguration>"""


class Versity:
    """A running server with the credentials and the bucket of `swift`; `stop` ends it."""

    def __init__(self, root: Path) -> None:
        """Start below an empty directory; raises `swift.UnavailableError`."""
        program = _built()
        (root / "files").mkdir()
        with reserved_port() as self.port:
            command = [program, "--access", swift.ACCESS_KEY, "--secret", swift.SECRET_KEY, "--region", swift.REGION]
            command += ["--port", f"127.0.0.1:{self.port}", "--virtual-domain", swift.STORAGE_DOMAIN, "--quiet"]
            with (root / "log").open("wb") as log:
                self._process = subprocess.Popen(
                    [*command, "posix", root / "files"], stdout=log, stderr=log, stdin=subprocess.DEVNULL
                )
        wait_until(self._answers)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, bucket: str, prefix: str) -> str:
        """The store's URL as Pilotis takes it."""
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}&region={swift.REGION}"

    def allow_browsers(self) -> None:
        """Give the bucket the rule that Swift has in its configuration."""
        signer = Presigner(self.endpoint, swift.ACCESS_KEY, swift.SECRET_KEY, swift.REGION)
        digest = base64.b64encode(hashlib.md5(_CORS.encode(), usedforsecurity=False).digest()).decode()
        url = signer.sign("PUT", swift.BUCKET, expires_seconds=60, query={"cors": ""})
        status, _, text = ask("PUT", url, {"Content-MD5": digest}, _CORS.encode())
        assert status == 200, text

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _answers(self) -> bool:
        assert self._process.poll() is None, "it ended"
        try:
            return ask("GET", f"{self.endpoint}/?", {})[0] > 0
        except OSError:
            return False


def _built() -> Path:
    if (go := shutil.which("go")) is None:
        raise swift.UnavailableError("The Versity S3 Gateway is built with Go, which is not installed.")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pilotis-tests"
    cache.mkdir(parents=True, exist_ok=True)
    program = cache / f"versitygw-{VERSION.removeprefix('v')}" / "bin" / "versitygw"
    with (cache / "versitygw.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            source = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
            shared.output([go, "install", source], cache, os.environ | {"GOBIN": str(program.parent)})
    return program
