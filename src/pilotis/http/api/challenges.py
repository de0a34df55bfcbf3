"""What a 401 or 403 says about OAuth access tokens: where they come from, and which scope they need."""

from __future__ import annotations

from uuid import UUID


def resource_challenge(
    base_url: str, app_id: UUID | str, *, scope: str | None = None, error: str | None = None
) -> dict[str, str]:
    """Return the header of an app's API (RFC 6750, section 3; `resource_metadata` is RFC 9728, section 5.1)."""
    named = {
        "error": error,
        "scope": scope,
        "resource_metadata": f"{base_url}/.well-known/oauth-protected-resource/apps/{app_id}",
    }
    text = ", ".join(f'{name}="{value}"' for name, value in named.items() if value is not None)
    return {"WWW-Authenticate": f"Bearer {text}"}
