"""Rate limits that hold across nodes."""
