"""Writes recommended rules as automations that a Home Assistant takes as they are."""
