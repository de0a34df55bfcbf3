"""Dead jobs, which are background jobs that have failed permanently: listing, retrying and deleting them."""
