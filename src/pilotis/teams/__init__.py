"""Teams of members, with roles in each, which rules ask for."""
