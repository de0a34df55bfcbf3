"""What a person types: the command `pilotis`, one module for each group of commands.

Nothing here imports a database driver or the server until a command needs it, so that `--help` is quick and
PostgreSQL starts before they are read.
"""

from pilotis.cli.main import command, main

__all__ = ["command", "main"]
