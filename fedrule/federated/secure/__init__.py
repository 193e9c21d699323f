"""Parts of the secure sum: its messages as bytes, keys and masks, and shares of a secret."""
