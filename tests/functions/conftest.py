"""Functions run in sandboxes, which not every machine has."""

import pytest


@pytest.fixture(autouse=True)
def _on_machines_with_sandboxes(sandboxes: None) -> None: ...
