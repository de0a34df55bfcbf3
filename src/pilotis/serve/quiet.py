"""A restored server is quiet: it answers requests and does nothing on its own, until its operator accepts it.

Otherwise the schedules, retries, mails and webhooks of the moment would run beside those of the server that was backed
up, or a second time.
"""

from __future__ import annotations

from pathlib import Path

from pilotis.settings import Settings

QUIET_FILE = "restored.quiet"


def is_quiet(settings: Settings) -> bool:
    """Whether the data directory is that of a restored server that was not accepted yet."""
    return (Path(settings.data_dir) / QUIET_FILE).exists()


def accept(settings: Settings) -> bool:
    """Let a restored server work from its next start on; return whether it was quiet."""
    path = Path(settings.data_dir) / QUIET_FILE
    was_quiet = path.exists()
    path.unlink(missing_ok=True)
    return was_quiet
