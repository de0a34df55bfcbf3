"""Events: what happens in an app, stored in the transaction of the change, and dispatched to registered targets."""
