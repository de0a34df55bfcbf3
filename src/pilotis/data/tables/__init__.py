"""Tables and columns: the catalogue and the physical tables."""
