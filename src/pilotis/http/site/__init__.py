"""The pages a browser sees: what this is, the reference, the first console user's sign-up. All work offline."""
