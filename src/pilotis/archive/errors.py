"""The errors of archives."""

from __future__ import annotations

from pilotis.kit.errors import BadRequestError, ConflictError, NotFoundError, UnavailableError


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


class SchemaChangedError(ArchiveInterruptedError):
    """409 `ARCHIVE_INTERRUPTED`: the schema of a table changed while its rows were read."""

    def __init__(self, title: str) -> None:
        super().__init__(f"The schema of {title} changed while the archive was being written. Write it again.")


class ArchiveNotFoundError(NotFoundError):
    """404: the app has no such archive, or it was deleted because there are newer ones."""

    code = "ARCHIVE_NOT_FOUND"
    message = "The archive does not exist."


class ArchiveScheduleNotFoundError(NotFoundError):
    """404: no archives of the app are made at set times."""

    code = "ARCHIVE_SCHEDULE_NOT_FOUND"
    message = "The app has no schedule for archives. Set one with PUT."


class ArchivePendingError(ConflictError):
    """409: an archive of the app is being written; there is one at a time."""

    code = "ARCHIVE_PENDING"
    message = "An archive of the app is being written. Wait until it is completed."


class ArchiveNotReadyError(ConflictError):
    """409: the archive is not written yet, or could not be."""

    code = "ARCHIVE_NOT_READY"
    message = "Only a completed archive can be downloaded."


class ArchiveLinkInvalidError(NotFoundError):
    """404: the link is unknown, has been used, or has expired, or its user has lost access to the app."""

    code = "ARCHIVE_LINK_INVALID"
    message = "The link is unknown, was used before, or is older than a minute. Start the download again."


class AppImportNotFoundError(NotFoundError):
    """404: there is no such import of this user, or it is older than 30 days."""

    code = "APP_IMPORT_NOT_FOUND"
    message = "The import does not exist."


class ImportsBusyError(UnavailableError):
    """503 `IMPORTS_BUSY`: the process imports as many archives as it may."""

    code = "IMPORTS_BUSY"
    message = "Other archives are being imported. Try again when they are done."


class AppExistsError(ConflictError):
    """409 `APP_EXISTS`: there is an app with the id of the archive's, or one that was deleted and not yet purged."""

    code = "APP_EXISTS"
    message = "The server has, or had within the last days, the app with this id. Import it as an app of its own."
