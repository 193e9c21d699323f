"""Data that nobody has to bring along: homes and people made up after what was published about real ones."""

from datasets.synthetic.ifttt import ifttt_synthetic
from datasets.synthetic.wyze import wyze_synthetic

__all__ = ["ifttt_synthetic", "wyze_synthetic"]
