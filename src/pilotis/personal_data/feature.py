"""The data of a person."""

from __future__ import annotations

from pilotis.accounts.feature import AccountsFeature
from pilotis.apps.feature import AppsFeature
from pilotis.data.rows.feature import RowsFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.feature import Feature
from pilotis.files.feature import FilesFeature
from pilotis.floor import Floor
from pilotis.mail.feature import MailFeature
from pilotis.members.feature import MembersFeature
from pilotis.personal_data.endpoints import PersonalDataEndpoints
from pilotis.personal_data.service import PersonalData


class PersonalDataFeature(Feature, frozen=True, kw_only=True, eq=False):
    """The data of a person."""

    described = (PersonalDataEndpoints,)


def feature(
    floor: Floor,
    apps: AppsFeature,
    members: MembersFeature,
    accounts: AccountsFeature,
    mail: MailFeature,
    tables: TablesFeature,
    rows: RowsFeature,
    files: FilesFeature,
) -> PersonalDataFeature:
    """Return the feature."""
    data = PersonalData(
        floor.database,
        apps.apps,
        tables.tables,
        rows.rows,
        files.files,
        floor.jobs,
        floor.rate_limits,
        members.members,
        mail.mails,
        floor.base_url.rstrip("/"),
    )
    members.members.attach_eraser(data.erase)
    return PersonalDataFeature(
        name="personal_data",
        endpoints=[PersonalDataEndpoints(data, accounts.proofs)],
        jobs=[data.kind],
    )
