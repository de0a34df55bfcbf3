"""tus-js-client, the client that applications use for resumable uploads, from npm."""

import shutil
from pathlib import Path

import pytest

from tests import shared

VERSION = "4.3.1"
NEEDS_NODE = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="there is no node with npm, which tus-js-client needs"
)


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which npm has installed the client."""
    return shared.install_npm(tmp_path_factory.mktemp("tus-js-client"), f"tus-js-client@{VERSION}")
