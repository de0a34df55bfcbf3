"""Sign-out: started by a client (RP-Initiated Logout 1.0) and reported to all clients (Back-Channel Logout 1.0)."""
