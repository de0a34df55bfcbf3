"""The provider's periodic tasks."""

from __future__ import annotations

from pilotis.db.pool import Database
from pilotis.jobs.kinds import Periodic
from pilotis.jobs.tasks import on_connection
from pilotis.oauth import client_store, store
from pilotis.oauth.flow import store as flow_store
from pilotis.oauth.tokens import store as token_store


def periodic(database: Database) -> list[Periodic]:
    """Return the tasks, which delete expired keys, requests, codes and grants."""
    return [
        on_connection(database, "oauth_keys.expire", 3600, store.delete_expired),
        on_connection(database, "oauth_requests.expire", 3600, flow_store.delete_expired),
        on_connection(database, "oauth_grants.expire", 3600, token_store.delete_expired),
        on_connection(database, "oauth_clients.expire", 3600, client_store.delete_unused_dynamic),
    ]
