"""Account pages: where members of an app sign in, sign up, and look after their account."""
