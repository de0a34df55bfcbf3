"""Web hosting: sites of static files, deployed, promoted, and served under their own host names."""
