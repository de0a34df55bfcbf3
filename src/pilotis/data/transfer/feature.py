"""Imports of rows from files, and exports."""

from __future__ import annotations

from typing import ClassVar

from pilotis.apps.feature import AppsFeature
from pilotis.data.rows.bulk.service import BulkRows
from pilotis.data.rows.feature import RowsFeature
from pilotis.data.transfer.endpoints import TransferEndpoints
from pilotis.data.transfer.links import ExportLinks
from pilotis.data.transfer.service import Transfer
from pilotis.data.transfer.tasks import periodic
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, LeftOut
from pilotis.users.feature import UsersFeature


class TransferFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Import and export."""

    described = (TransferEndpoints,)
    archived: ClassVar[Archived] = {
        "imports": LeftOut("an interrupted import goes on where it began"),
    }

    transfer: Transfer


def feature(floor: Floor, rows: RowsFeature, apps: AppsFeature, users: UsersFeature) -> TransferFeature:
    """Return the feature."""
    bulk = BulkRows(floor.database, rows.prepared_tables)
    transfer = Transfer(floor.database, bulk, floor.room, floor.events)
    links = ExportLinks(floor.database, bulk, apps.apps, users.users, floor.base_url)
    return TransferFeature(
        name="transfer",
        endpoints=[TransferEndpoints(transfer, links)],
        periodic=periodic(floor.database, transfer),
        transfer=transfer,
    )
