"""The typed endpoint layer: routing, principals, decoding, errors, OpenAPI."""
