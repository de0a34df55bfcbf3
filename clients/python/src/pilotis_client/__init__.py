"""The client of Pilotis: `Client` waits for each answer, `AsyncClient` is the same for asyncio."""

from pilotis_client._async import AsyncClient, AsyncQuery, AsyncRows
from pilotis_client._shared import ApiError, Change, ChannelEvent, MemoryStorage, Page, Row, RowReference, Storage, inc
from pilotis_client._sync import Client, Query, Rows

__version__ = "1.0.0"
__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncQuery",
    "AsyncRows",
    "Change",
    "ChannelEvent",
    "Client",
    "MemoryStorage",
    "Page",
    "Query",
    "Row",
    "RowReference",
    "Rows",
    "Storage",
    "inc",
]
