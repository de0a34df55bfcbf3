"""Live rows: pages subscribe to rows by a condition and are told when they change, under the tables' rules."""
