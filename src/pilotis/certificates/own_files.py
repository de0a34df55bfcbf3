"""The operator's own certificate: two files, which are read again when they change."""

from __future__ import annotations

import ssl
from pathlib import Path

import structlog

from pilotis.certificates.contexts import CertificateError, Facts, context_of, facts_of

CHECK_SECONDS = 10.0
"""How often the files are looked at."""
_log = structlog.get_logger("pilotis.https")

_Stamp = tuple[tuple[int, int, int], ...]


class OwnFiles:
    """A certificate with its chain and the key of it, in PEM files; `key` may be the same file."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read the files; raises `CertificateError`."""
        self._paths = (certificate, key)
        self._stamp: _Stamp = ()
        self.context, self.facts = self._read()

    def covers(self, name: str) -> bool:
        """Whether the certificate is for a name."""
        return self.facts.covers(name)

    def reload(self, *, always: bool = False) -> None:
        """Read the files again if they have changed, or `always`. Files that cannot be used change nothing."""
        try:
            if not always and self._now() == self._stamp:
                return
            self.context, self.facts = self._read()
        except CertificateError as error:
            _log.error("certificate not read", reason=str(error))
        else:
            _log.info("certificate read", names=sorted(self.facts.names), not_after=self.facts.not_after.isoformat())

    def _read(self) -> tuple[ssl.SSLContext, Facts]:
        # Taken first: what changes meanwhile is read again the next time, and what cannot be used is named once.
        self._stamp = self._now()
        try:
            chain, key = (path.read_bytes() for path in self._paths)
        except OSError as error:
            raise _unreadable(error) from None
        try:
            return context_of(chain, b"" if key == chain else key), facts_of(chain)
        except CertificateError as error:
            raise CertificateError(
                f"{' and '.join(dict.fromkeys(map(str, self._paths)))} cannot be used: {error}"
            ) from None

    def _now(self) -> _Stamp:
        try:
            found = [path.stat() for path in self._paths]
        except OSError as error:
            raise _unreadable(error) from None
        return tuple((one.st_mtime_ns, one.st_ino, one.st_size) for one in found)


def _unreadable(error: OSError) -> CertificateError:
    return CertificateError(f"{error.filename} cannot be read: {error.strerror}.")
