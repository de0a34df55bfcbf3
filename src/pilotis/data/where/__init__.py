"""The condition language: conditions and orders, compiled to SQL. Pure."""
