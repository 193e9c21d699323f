"""What runs leave on disk, and what is read from it."""
