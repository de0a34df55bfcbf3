"""Members that come from another product, with the hashes of their passwords."""
