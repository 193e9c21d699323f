"""Attacks of clients, and how a server bounds what they can do."""
