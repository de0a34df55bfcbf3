"""The trash: dropped tables and columns, which can be restored in full within 7 days."""
