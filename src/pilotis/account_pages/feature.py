"""Account pages."""

from __future__ import annotations

from typing import ClassVar

from pilotis.account_pages.endpoints import AccountLogoEndpoints, AccountPages
from pilotis.account_pages.service import AccountLogos
from pilotis.apps.feature import AppsFeature
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, Copied
from pilotis.kit.logos import check_logo
from pilotis.oauth.feature import OAuthFeature


class AccountPagesFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Account pages."""

    described = (AccountPages, AccountLogoEndpoints)
    archived: ClassVar[Archived] = {"account_logos": Copied(columns="image updated_at", checks={"image": check_logo})}

    logos: AccountLogos


def feature(floor: Floor, apps: AppsFeature, oauth: OAuthFeature) -> AccountPagesFeature:
    """Return the feature."""
    logos = AccountLogos(floor.database, apps.apps, apps.settings.set_logo)
    pages = AccountPages(apps.apps, oauth.social, logos, floor.base_url.rstrip("/"))
    return AccountPagesFeature(name="account_pages", endpoints=[pages, AccountLogoEndpoints(logos)], logos=logos)
