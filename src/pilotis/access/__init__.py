"""Who stands behind a credential."""
