"""Import and export of whole tables, in constant memory."""
