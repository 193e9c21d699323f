"""An audit of leakage: attacks on our own system, and what they can tell of a home by method and defence.

    view         what an attacker sees and knows; an attack is a function from it to a guess
    rows         rules of a home from the rows of its update that are not zero
    inversion    rules of a home from candidate gradients that add up to its update
    counts       rules and membership from the sums of counts that fedrank makes before training
    membership   whether a home was trained on, by likelihood ratios over shadow models
    defences     sums over a cohort, clipping and noise: what they leave for the attacker to see
    measure      runs the clients, lets the attacks guess, and compares with the homes

Only `measure` has the homes. Attacks take a view, and nothing else: a reader can check what they use.
"""
