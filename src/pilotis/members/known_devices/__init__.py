"""Devices on which a member has signed in by its password before."""
