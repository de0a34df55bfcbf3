"""Search by place."""
