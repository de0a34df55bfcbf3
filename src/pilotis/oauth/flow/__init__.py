"""The authorization endpoint and the consent of members (RFC 6749, section 4.1; OpenID Connect Core 1.0)."""
