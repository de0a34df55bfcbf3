"""Console users: the developers who own apps."""
