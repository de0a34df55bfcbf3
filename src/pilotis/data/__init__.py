"""Tables, their rows and everything that reads or changes them."""
