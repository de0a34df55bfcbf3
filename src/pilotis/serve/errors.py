"""Why a command cannot do its work."""


class CommandError(Exception):
    """A command has to give up. The message is one or two sentences for the person who typed it."""
