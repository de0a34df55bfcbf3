"""Nodes whose files are in an S3 store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pilotis.settings import Settings
from tests import databases
from tests.blobs import swift
from tests.services import Node
from tests.support import Server


@asynccontextmanager
async def s3_node(server: Server, url: str, **settings: Any) -> AsyncIterator[Node]:
    """A node on the server's database, in this process, that keeps its files at the S3 store's URL."""
    given = Settings(
        data_dir=str(server.data_dir),
        blob_store=url,
        s3_access_key=swift.ACCESS_KEY,
        s3_secret_key=swift.SECRET_KEY,
        **settings,
    )
    node = Node(given, databases.address(server.data_dir), "http://node")
    try:
        yield node
    finally:
        await node.stop()
