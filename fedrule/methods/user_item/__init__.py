"""User-item methods trained in the homes; their central twins are in baselines/."""
