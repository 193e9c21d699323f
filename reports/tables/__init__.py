"""Tables: each a function from the inputs to a table."""
