"""Pilotis: an application backend in one Python process."""

__version__ = "0.1.0"
