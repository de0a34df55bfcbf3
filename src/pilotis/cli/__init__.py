"""The command `pilotis`, with one module for each group of commands.

No module here imports a database driver or the server until a command needs it, so that `--help` is fast, and
PostgreSQL starts while they are imported.
"""

from pilotis.cli.main import main

__all__ = ["main"]
