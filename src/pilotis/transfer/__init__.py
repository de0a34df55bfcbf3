"""Import and export of whole tables, at constant memory."""
