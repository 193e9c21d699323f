"""An audit of leakage: attacks on our own system, and what they can tell of a home by method and defence.

    view         what an attacker sees and knows, and what it guesses
    network      rules of a home from an update of the paper's network: touched rows, and gradient inversion
    evidence     rules of a home from an update of fedrank's evidence network
    counts       rules and membership from the sums of counts that fedrank makes before training
    membership   whether a home was trained on, by likelihood ratios over shadow models
    defences     sums over a cohort, clipping and noise: what they leave for the attacker to see
    findings     what was measured, a row for each attack and defence
    run          trains, lets the attacks guess, and compares with the homes

An attack is a function from what the attacker sees to a guess. It has no access to the homes, which only `run` has, so
that a reader can check what it uses.
"""
