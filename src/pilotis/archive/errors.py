"""The errors of archives."""

from __future__ import annotations

from pilotis.kit.errors import BadRequestError, ConflictError


class InvalidArchiveError(BadRequestError):
    """400 `INVALID_APP_ARCHIVE`: the file is no archive of an app, is damaged or cut off, or says what it may not."""

    code = "INVALID_APP_ARCHIVE"


class ArchiveTooNewError(BadRequestError):
    """400 `ARCHIVE_TOO_NEW`: a newer version of Pilotis wrote the archive."""

    code = "ARCHIVE_TOO_NEW"


class ArchiveKeyError(BadRequestError):
    """400 `ARCHIVE_PASSPHRASE`: the archive needs a passphrase, or another one, or was changed since it was written."""

    code = "ARCHIVE_PASSPHRASE"


class ArchiveInterruptedError(ConflictError):
    """409 `ARCHIVE_INTERRUPTED`: the app changed in a way that an archive of one moment cannot follow."""

    code = "ARCHIVE_INTERRUPTED"


class AppExistsError(ConflictError):
    """409 `APP_EXISTS`: there is an app with the id of the archive's, or one that was deleted and not yet purged."""

    code = "APP_EXISTS"
    message = "The server has, or had within the last days, the app with this id. Import it as an app of its own."
