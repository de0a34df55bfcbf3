"""What console users do about an app's members."""
