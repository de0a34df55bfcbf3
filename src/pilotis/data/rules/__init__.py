"""Rules: which rows and columns of a table a caller may use, as conditions of the statements themselves."""
