"""Social login: members sign in with an account that they have at another provider."""
