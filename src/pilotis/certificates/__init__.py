"""HTTPS: certificates, own and by ACME, and the port that redirects to it."""
