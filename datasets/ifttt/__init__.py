"""IFTTT: people's recipes that connect one app with another, in the three layouts they were published in."""

from datasets.ifttt.presets import ifttt_fedrule, ifttt_full

__all__ = ["ifttt_fedrule", "ifttt_full"]
