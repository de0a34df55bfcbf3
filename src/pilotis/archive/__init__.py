"""Archives of apps: one file with everything of an app, which another server makes an app of."""
