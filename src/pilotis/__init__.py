"""Pilotis: the floor under an application, in one Python process."""

__version__ = "0.1.0"
