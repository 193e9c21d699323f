"""The list of a home as one HTML file that works from disk."""

from fedrule.homeassistant.page.page import write_page

__all__ = ["write_page"]
