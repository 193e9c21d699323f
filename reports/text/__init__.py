"""Phrases, the page's summary, and the formats of tables."""
