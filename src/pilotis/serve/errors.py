"""The error with which a command ends."""


class CommandError(Exception):
    """A command cannot continue. The message is one or two sentences for the person who typed it."""

    exit_status = 1
    """The exit status of the command."""
