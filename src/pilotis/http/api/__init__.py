"""The endpoint layer: from the declaration of a route to its answer."""
