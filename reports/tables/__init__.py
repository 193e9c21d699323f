"""Tables: each a function from the material to a table."""
