"""What links members to vendors and clients, for the app's team."""
