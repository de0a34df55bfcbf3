"""tus-js-client, the client that applications use for resumable uploads, from npm."""

import shutil
import subprocess
from pathlib import Path

import pytest

VERSION = "4.3.1"
NEEDS_NODE = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="there is no node with npm, which tus-js-client needs"
)


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which npm has installed the client."""
    folder = tmp_path_factory.mktemp("tus-js-client")
    wanted = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", f"tus-js-client@{VERSION}"]
    done = subprocess.run([*wanted, "--prefix", folder], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder
