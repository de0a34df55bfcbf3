"""The types of imported members."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from pilotis.http.api.schemas import Email
from pilotis.kit import foreign_passwords
from pilotis.kit.errors import invalid
from pilotis.kit.foreign_passwords import ForeignHashError
from pilotis.kit.languages import Language
from pilotis.members.types import LoginId, Nickname, Profile, Roles

Text = Annotated[str, msgspec.Meta(max_length=512)]
Scheme = Literal["bcrypt", "argon2", "scrypt", "pbkdf2_sha256", "firebase_scrypt"]


class ImportedHash(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The hash of a password, as another product has made it.

    `hash` is a text of crypt or PHC for bcrypt, argon2 and scrypt, and base64 for the others: `pbkdf2_sha256` also has
    `salt` and `iterations`; `firebase_scrypt` has `salt`, and `signer_key`, `salt_separator`, `rounds` and `mem_cost`
    of the project.
    """

    scheme: Scheme
    hash: Text
    salt: Text = ""
    iterations: int = 0
    signer_key: Text = ""
    salt_separator: Text = ""
    rounds: int = 8
    mem_cost: int = 14

    @property
    def stored(self) -> str:
        """What is stored of it; raises a validation error."""
        try:
            match self.scheme:
                case "bcrypt":
                    return foreign_passwords.bcrypt(self.hash)
                case "argon2":
                    return foreign_passwords.argon2(self.hash)
                case "scrypt":
                    return foreign_passwords.scrypt(self.hash)
                case "pbkdf2_sha256":
                    return foreign_passwords.pbkdf2_sha256(self.hash, self.salt, self.iterations)
                case "firebase_scrypt":
                    return foreign_passwords.firebase_scrypt(
                        self.hash, self.salt, self.salt_separator, self.signer_key, self.rounds, self.mem_cost
                    )
        except ForeignHashError as error:
            raise invalid("password_hash", f"password_hash: {error}", "INVALID_HASH") from None


class ImportedIdentity(msgspec.Struct, forbid_unknown_fields=True):
    """An account at a vendor by which the member signs in: `subject` is the vendor's id of it."""

    provider: Annotated[str, msgspec.Meta(pattern=r"^[A-Z0-9_]{1,50}$", examples=["GOOGLE"])]
    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class ImportedMember(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A member to import: one line. It signs in with its password from before, or at a vendor, or by a mail.

    An address is the member's only with `email_verified`; one that is not is its login_id, if it has no other. With
    `member_id`, a UUID, what refers to the member keeps its meaning. `profile` says what the app's `sign_up_fields` ask
    for.
    """

    member_id: UUID | None = None
    login_id: LoginId | None = None
    email: Email | None = None
    email_verified: bool = False
    nickname: Nickname | None = None
    password_hash: ImportedHash | None = None
    identities: Annotated[list[ImportedIdentity], msgspec.Meta(max_length=10)] = []
    custom_data: dict[str, Any] = {}
    roles: Roles = []
    claims: dict[str, Any] = {}
    language: Language | None = None
    is_active: bool = True
    created_at: str | None = None
    profile: Profile = {}


class RejectedLine(msgspec.Struct, frozen=True):
    """A line that made no member, counted from 1, and why."""

    line: int
    code: str
    message: str


class ImportedMembers(msgspec.Struct, frozen=True):
    """How many members an import has made, and the lines that it has rejected."""

    created: int
    rejected: list[RejectedLine]
