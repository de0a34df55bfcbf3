"""The trash: dropped tables and columns, restored whole within 7 days."""
