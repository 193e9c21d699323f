"""From Home Assistant's words to those of the data: entity types, trigger states, actions, and rules."""
