"""The errors of web hosting."""

from __future__ import annotations

from pilotis.kit.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    PilotisError,
    UnauthorizedError,
)


class WebStorageNotFoundError(NotFoundError):
    """404: the app has no such web storage."""

    code = "WEB_STORAGE_NOT_FOUND"
    message = "The app has no such web storage."


class SlugTakenError(ConflictError):
    """409: another web storage of this server has the slug, or released it less than 30 days ago."""

    code = "SLUG_TAKEN"
    message = "This slug is taken. Choose another one."


class DeploymentNotFoundError(NotFoundError):
    """404: the web storage has no such deployment."""

    code = "DEPLOYMENT_NOT_FOUND"
    message = "This web storage has no such deployment."


class DeploymentNotReadyError(ConflictError):
    """409: the deployment is being processed, has failed, or has expired, so it cannot be promoted."""

    code = "DEPLOYMENT_NOT_READY"
    message = "Only a deployment with the status ready can be promoted."


class NoReadyDeploymentError(ConflictError):
    """409: the web storage has no deployment that could be promoted."""

    code = "NO_READY_DEPLOYMENT"
    message = "This web storage has no ready deployment."


class BaseDeploymentChangedError(ConflictError):
    """409: `base_deployment_id` is outdated: another deployment was created since then."""

    code = "BASE_DEPLOYMENT_CHANGED"
    message = "Another deployment was created since then. Read the manifest again."


class InvalidZipError(BadRequestError):
    """400 `INVALID_ZIP`: the archive is damaged, or has entries that a site must not have; `details` name them."""

    code = "INVALID_ZIP"
    message = "The archive is not a zip file that can be deployed."


class DeploymentOfBranchError(ConflictError):
    """409: the deployment is a preview of a branch, which is not promoted."""

    code = "DEPLOYMENT_OF_BRANCH"
    message = "This deployment is a preview of a branch, and ends with it. Deploy what production is to have."


class InvalidSitePathError(BadRequestError):
    """400 `INVALID_PATH`: a path is not valid for a site, or is named twice."""

    code = "INVALID_PATH"
    message = "This path is not valid for a site."


class NoFilesError(BadRequestError):
    """400 `NO_FILES`: the deployment would have no files."""

    code = "NO_FILES"
    message = "A deployment needs at least one file."


class UnknownPathError(BadRequestError):
    """400 `UNKNOWN_PATH`: a path to delete is not in the deployment that this one is based on."""

    code = "UNKNOWN_PATH"
    message = "A path to delete does not exist in the base deployment."


class DuplicatePathError(BadRequestError):
    """400 `DUPLICATE_PATH`: two of the pages have the same path."""

    code = "DUPLICATE_PATH"
    message = "Two of the pages have the same path."


class PageMetaNotFoundError(NotFoundError):
    """404: the page has no metadata."""

    code = "PAGE_META_NOT_FOUND"
    message = "This page has no metadata."


class DomainNotFoundError(NotFoundError):
    """404: the web storage has no such domain."""

    code = "DOMAIN_NOT_FOUND"
    message = "This web storage has no such domain."


class DomainTakenError(ConflictError):
    """409: another web storage has verified the domain."""

    code = "DOMAIN_TAKEN"
    message = "Another web storage has this domain."


class DomainNotVerifiedError(ConflictError):
    """409: the TXT record that proves the domain was not found, or has another value."""

    code = "DOMAIN_NOT_VERIFIED"
    message = "The TXT record was not found."


class SiteNotFoundError(NotFoundError):
    """404: no site has this host name, or it has no such deployment."""

    code = "SITE_NOT_FOUND"
    message = "There is no site at this address."


class PreviewPasswordRequiredError(UnauthorizedError):
    """401: the site's previews require a password (RFC 7617)."""

    code = "PREVIEW_PASSWORD_REQUIRED"
    message = "This preview requires a password."

    def __init__(self) -> None:
        super().__init__(headers={"WWW-Authenticate": 'Basic realm="Preview", charset="UTF-8"'})


class UploadLinkInvalidError(ForbiddenError):
    """403: the upload URL's signature is invalid, or the URL has expired."""

    code = "UPLOAD_LINK_INVALID"
    message = "This upload URL is invalid or has expired. Request a new one."


class UploadLengthRequiredError(PilotisError):
    """411: an upload needs a `Content-Length`."""

    status = 411
    code = "LENGTH_REQUIRED"
    message = "Send the upload with a Content-Length."
