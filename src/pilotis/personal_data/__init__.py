"""The data of a person: what an app has of a member, for the member itself, and its deletion."""
