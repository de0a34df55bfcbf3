"""Full-text search and autocompletion."""
