"""Domain events of an app: declared by it, published or derived, and listed for consumers."""
