"""Rules as triples of a knowledge graph: RotatE and ComplEx."""
