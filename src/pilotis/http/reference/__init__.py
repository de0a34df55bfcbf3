"""The pages for a browser: the home page, the reference, and the first console user's sign-up. All work offline."""
