"""Why there is no certificate."""

from __future__ import annotations


class OrderError(Exception):
    """An order failed; the text says why."""


class AccountUnknownError(OrderError):
    """The authority does not know the account, for example because it has been set up again."""
