"""What a handler may return instead of a struct: pages, redirects, event streams."""
