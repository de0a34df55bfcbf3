"""The errors of backups: sentences for the operator, with the exit status of the command."""

from __future__ import annotations

from pilotis.serve.errors import CommandError

MISSING, REFUSED = 1, 3


class BackupError(CommandError):
    """Something is missing or damaged: exit status 1."""

    exit_status = MISSING


class BackupRefusedError(BackupError):
    """The command would do harm, or cannot do here what it is for: exit status 3."""

    exit_status = REFUSED


class DamagedError(BackupError):
    """What the store has is not what was written to it."""
