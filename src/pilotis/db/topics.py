"""The messages that nodes exchange over PostgreSQL's NOTIFY: each is `topic:key` on one channel."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from asyncpg import Connection

CHANNEL = "pilotis"


class Topic(StrEnum):
    """The topics of all messages."""

    APP = "app"
    TABLE = "table"
    MASTER_KEY = "master"
    SITE = "site"
    FUNCTION = "function"
    OAUTH_KEYS = "oauth_keys"
    WORK = "work"
    EVENTS = "events"
    NEWS = "news"
    CANCEL = "cancel"
    CHANGES = "changes"
    CHANNEL_RULES = "channel_rules"
    CHANNELS = "channels"
    LIVE_TICKETS = "live_tickets"
    LIVE_QUESTIONS = "live_questions"
    CERTIFICATE = "certificate"


CacheTopic = Literal[
    Topic.APP,
    Topic.TABLE,
    Topic.MASTER_KEY,
    Topic.SITE,
    Topic.FUNCTION,
    Topic.OAUTH_KEYS,
    Topic.CHANNEL_RULES,
    Topic.CERTIFICATE,
]
"""Topics of rare changes that invalidate caches: sent within the transaction that makes the change."""
WakeUpTopic = Literal[
    Topic.WORK,
    Topic.EVENTS,
    Topic.NEWS,
    Topic.CANCEL,
    Topic.CHANGES,
    Topic.CHANNELS,
    Topic.LIVE_TICKETS,
    Topic.LIVE_QUESTIONS,
]
"""Topics of frequent messages: sent outside transactions, because NOTIFY inside them serialises all commits."""


async def publish(connection: Connection, topic: CacheTopic, key: object) -> None:
    """Notify every node, when the connection's transaction commits, that the cached `key` of a topic is stale."""
    await connection.execute("select pg_notify($1, $2)", CHANNEL, f"{topic}:{key}")
