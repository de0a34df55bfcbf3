"""Account pages."""

from __future__ import annotations

from pilotis.account_pages.endpoints import AccountPages
from pilotis.apps.feature import AppsFeature
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.oauth.feature import OAuthFeature


class AccountPagesFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Account pages."""

    described = (AccountPages,)


def feature(floor: Floor, apps: AppsFeature, oauth: OAuthFeature) -> AccountPagesFeature:
    """Return the feature."""
    pages = AccountPages(apps.apps, oauth.social, floor.base_url.rstrip("/"))
    return AccountPagesFeature(name="account_pages", endpoints=[pages])
