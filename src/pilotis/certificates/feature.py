"""HTTPS by the server itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from pilotis.certificates.issued import IssuedCertificates
from pilotis.certificates.orders import Ordering, Orders
from pilotis.certificates.own_files import OwnFiles
from pilotis.certificates.service import Certificates
from pilotis.certificates.site_names import SiteNames
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.hosting.feature import HostingFeature
from pilotis.kit.metrics import Gauge
from pilotis.security.encryption.types import EncryptedColumn, Purpose


class CertificatesFeature(Feature, frozen=True, kw_only=True, eq=False):
    """HTTPS by the server itself."""

    encrypted_columns = (
        EncryptedColumn("https_certificates", "private_key", "name", Purpose.HTTPS_KEY),
        EncryptedColumn("https_accounts", "private_key", "directory", Purpose.HTTPS_KEY),
    )

    certificates: Certificates | None
    """None if HTTPS is left to a proxy."""


def feature(floor: Floor, hosting: HostingFeature) -> CertificatesFeature:
    """Return the feature."""
    settings = floor.settings
    if not settings.uses_https:
        return CertificatesFeature(name="certificates", certificates=None)
    own = None
    if settings.https_certificate is not None:
        own = OwnFiles(Path(settings.https_certificate), Path(settings.https_key or settings.https_certificate))
    issued = orders = None
    if settings.https_names:
        issued = IssuedCertificates(floor.database, floor.control, floor.secrets)
        orders = Orders(
            floor.database,
            floor.jobs,
            floor.secrets,
            Ordering(
                settings.https_directory,
                settings.https_email,
                settings.outgoing_ca_file,
                settings.outgoing_proxy,
                settings.limits.certificates_per_hour,
            ),
            [name for name in settings.https_names if own is None or not own.covers(name)],
            lambda names: certificates.wanted(names),
            lambda name: certificates.is_site(name),
        )
    sites = None
    if urlsplit(settings.sites_base_url or "").scheme == "https":

        def sites(found: Callable[[str], None]) -> SiteNames:
            return SiteNames(hosting.hosting.is_site_name, hosting.hosting.served_names, found)

    certificates = Certificates(
        floor.database, settings.https_names, hosting.hosting.is_domain, own, issued, orders, sites
    )

    def seconds_left() -> float:
        end = certificates.first_end()
        return end.timestamp() - time.time() if end else 0.0

    return CertificatesFeature(
        name="certificates",
        jobs=[orders.kind] if orders else [],
        periodic=[orders.periodic] if orders else [],
        metrics=[
            Gauge(
                "pilotis_https_certificate_seconds",
                "Seconds until the first certificate of the server's own names ends; 0 without one.",
                seconds_left,
                is_largest=True,
            ),
            Gauge(
                "pilotis_https_certificates_missing",
                "Names of the server itself that have no certificate yet.",
                lambda: float(certificates.missing()),
                is_largest=True,
            ),
        ],
        start=certificates.start,
        close=certificates.close,
        certificates=certificates,
    )
