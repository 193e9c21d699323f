"""The list of a home as one HTML file that works from disk."""
