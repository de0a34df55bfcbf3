"""The gate that every sign-in of a member passes."""
