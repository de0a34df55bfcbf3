"""Administration of an app's members by console users."""
