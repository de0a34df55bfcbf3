"""The errors of file storage."""

from __future__ import annotations

from pilotis.kit.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    PayloadTooLargeError,
    PilotisError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedMediaTypeError,
)


class StorageNotFoundError(NotFoundError):
    """404: the app has no such file storage."""

    code = "STORAGE_NOT_FOUND"
    message = "The app has no such file storage."


class StorageNameTakenError(ConflictError):
    """409: another file storage of the app already has the name."""

    code = "STORAGE_NAME_TAKEN"
    message = "Another file storage of this app already has that name."


class StorageNotEmptyError(ConflictError):
    """409: the storage has files or folders, and `force` was not sent."""

    code = "STORAGE_NOT_EMPTY"
    message = "The storage is not empty. Send force=true to delete it with all its files."


class FileNotFoundInStorageError(NotFoundError):
    """404: the storage has no such file, folder or upload."""

    code = "FILE_NOT_FOUND"
    message = "This storage has no such file."


class FolderNotFoundError(NotFoundError):
    """404: `parent_id` is not a folder of the storage."""

    code = "FOLDER_NOT_FOUND"
    message = "This storage has no such folder."


class FolderNotEmptyError(ConflictError):
    """409: the folder has items, and `recursive` was not sent."""

    code = "FOLDER_NOT_EMPTY"
    message = "The folder is not empty. Send recursive=true to delete it with everything in it."


class PathTakenError(ConflictError):
    """409: an item already has this path, or a file is where a folder is needed."""

    code = "PATH_TAKEN"
    message = "An item already has this path."


class InvalidPathError(BadRequestError):
    """400: a name or a path breaks the rules for names."""

    code = "INVALID_PATH"
    message = "The name or path is not valid."


class MimeTypeNotAllowedError(UnsupportedMediaTypeError):
    """415: the storage does not accept files of this type."""

    code = "MIME_TYPE_NOT_ALLOWED"
    message = "This storage does not accept files of this type."


class FileTooLargeError(PayloadTooLargeError):
    """413: the file is larger than the storage allows."""

    code = "FILE_TOO_LARGE"
    message = "The file is larger than this storage allows."


class QuotaExceededError(PayloadTooLargeError):
    """413: the file does not fit into the storage's quota."""

    code = "QUOTA_EXCEEDED"
    message = "The file does not fit into the quota of this storage."


class UploadUrlExpiredError(ForbiddenError):
    """403: the upload URL has expired."""

    code = "UPLOAD_URL_EXPIRED"
    message = "The upload URL has expired. Ask for a new one."


class UploadSignatureInvalidError(ForbiddenError):
    """403: the upload URL was not signed by this server, or was changed."""

    code = "UPLOAD_SIGNATURE_INVALID"
    message = "The upload URL's signature is not valid."


class UploadNotFoundError(NotFoundError):
    """404: the upload was deleted, with its storage or after it expired."""

    code = "UPLOAD_NOT_FOUND"
    message = "The upload does not exist."


class LengthRequiredError(PilotisError):
    """411: an upload needs `Content-Length`."""

    status = 411
    code = "LENGTH_REQUIRED"
    message = "Send the header Content-Length with the file's size."


class ContentTypeMismatchError(BadRequestError):
    """400: the upload's `Content-Type` is not the declared type."""

    code = "CONTENT_TYPE_MISMATCH"
    message = "The header Content-Type must be the declared mime_type exactly."


class TypeMismatchError(BadRequestError):
    """400: the bytes in the object store have another type than declared."""

    code = "TYPE_MISMATCH"
    message = "The uploaded bytes have another type than declared."


class UploadAlreadyReceivedError(ConflictError):
    """409: the upload URL has been used."""

    code = "UPLOAD_ALREADY_RECEIVED"
    message = "The bytes of this upload have already been received."


class UploadInProgressError(ConflictError):
    """409: another request is currently sending to this upload URL."""

    code = "UPLOAD_IN_PROGRESS"
    message = "Another request is sending to this upload URL. Try again when it has ended."


class UploadNotReceivedError(ConflictError):
    """409: the bytes have not been received, or not all of them."""

    code = "UPLOAD_NOT_RECEIVED"
    message = "The bytes of this upload have not been received. Send them to upload_url first."


class UploadExpiredError(PilotisError):
    """410: the upload was not completed in time."""

    status = 410
    code = "UPLOAD_EXPIRED"
    message = "The upload was not completed in time. Start again with a new upload URL."


class UploadLostError(PilotisError):
    """410 `UPLOAD_LOST`: bytes that the server had received are no longer stored; the upload has been cancelled."""

    status = 410
    code = "UPLOAD_LOST"
    message = "Bytes of this upload that had been received are no longer stored. Create a new upload."


class UploadFinishingError(UnavailableError):
    """503 `UPLOAD_FINISHING`: all bytes are there, and the object store is still copying or joining them."""

    code = "UPLOAD_FINISHING"
    message = "The object store is still copying the bytes. Repeat the request to wait for it."

    def __init__(self) -> None:
        super().__init__(retry_after=5)


class TusVersionError(PilotisError):
    """412: the request uses another version of tus than 1.0.0."""

    status = 412
    code = "TUS_VERSION_NOT_SUPPORTED"
    message = "Send the header Tus-Resumable: 1.0.0."

    def __init__(self) -> None:
        super().__init__(headers={"Tus-Version": "1.0.0"})


class UploadHeaderInvalidError(BadRequestError):
    """400: a header of a resumable upload is missing or malformed."""

    code = "UPLOAD_HEADER_INVALID"
    message = "A header of the upload is not valid."


class UploadOffsetMismatchError(ConflictError):
    """409: `Upload-Offset` is not the current offset of the resumable upload."""

    code = "UPLOAD_OFFSET_MISMATCH"
    message = "Upload-Offset is not the current offset of this upload. Ask for it with HEAD."


class ChecksumMismatchError(PilotisError):
    """460: the bytes of the request do not match `Upload-Checksum`; they were discarded."""

    status = 460
    code = "CHECKSUM_MISMATCH"
    message = "The bytes do not match Upload-Checksum and were discarded."


class NotYoursError(ForbiddenError):
    """403: the storage lets members change only their own files."""

    code = "NOT_YOURS"
    message = "In this storage members can change only their own files."


class FileSignatureInvalidError(ForbiddenError):
    """403: the temporary URL has expired, was changed, or is for another file."""

    code = "FILE_SIGNATURE_INVALID"
    message = "The temporary URL is not valid: it has expired, was changed, or is for another file."


class StorageMemberRequiredError(UnauthorizedError):
    """401: the storage's access requires a signed-in member."""

    code = "MEMBER_TOKEN_REQUIRED"
    message = "This storage requires a signed-in member: send a member's access token as Authorization: Bearer …."


class PreconditionNotMetError(PilotisError):
    """412: `If-Match` or `If-Unmodified-Since` is false (RFC 9110, section 15.5.13)."""

    status = 412
    code = "PRECONDITION_NOT_MET"
    message = "The file does not satisfy the request's conditions."


class RangeNotSatisfiableError(PilotisError):
    """416: the range is outside the file (RFC 9110, section 15.5.17)."""

    status = 416
    code = "RANGE_NOT_SATISFIABLE"
    message = "The file does not have that range of bytes."


class NotAnImageError(BadRequestError):
    """400: the type of the file does not support variants."""

    code = "NOT_AN_IMAGE"
    message = "Variants exist only for image/jpeg, image/png, image/gif, image/webp, image/avif and image/bmp."


class InvalidImageError(BadRequestError):
    """400: the file's bytes are not a complete image of its type, so it has no variants."""

    code = "INVALID_IMAGE"
    message = "The file's bytes are not a complete image of its declared type."


class ImageTooLargeError(BadRequestError):
    """400: the image is too large for variants, or the variant is too large for a response."""

    code = "IMAGE_TOO_LARGE"
    message = (
        "The image has more than 50 megapixels or 50 MB, takes too much memory or time to decode, or its variant "
        "would have more than 16 MB."
    )
