"""Plain graph features of a candidate: what its home and all homes already do that is similar.

Counts, as logarithms, of rules of the home that agree with the candidate in some of trigger, state, act and action, of
homes with such a rule against homes that could have one, of devices, and of paths through the home's rules from its
trigger to its action; how well the candidate goes with the home's other rules (EASE), and its relation with those that
its devices already have; and whether it acts on itself.

Where devices have words, mostly rooms: how rare the words are that trigger and action share, whether one is the nearest
device of its type to the other, what the trigger already does in the room of the action and what acts on it from the
room of the trigger, and how far the rules of this home, and of others, keep to rooms.

With A the matrix [n_devices, n_devices] of who acts on whom in a home, the paths from i to j are the cells [i, j] of

    A A        i acts on something that acts on j,
    A^T A      something acts on both,
    A A^T      both act on something,
    A A^T A    i acts on what others act on who also act on j: what a recommender does with users and items, with
               the home's triggers as users and its actions as items; once counted, and once as a mean: over what i
               acts on, of the share of those acting on it that also act on j.

In training, all counts over homes leave out the candidate's own home.
"""

from __future__ import annotations

import numpy as np

from baselines.cooccurrence import OWNERSHIP, Matrix
from datasets.homes import Array, Homes
from datasets.valid import ValidRules
from fedrule.arrays import read_only
from fedrule.evidence import counts
from fedrule.evidence.counts import ColumnReader, CompanionCounts, HomeFrequencies, RoomCounts
from fedrule.evidence.feature_blocks import N_GIVEN, N_HOME, N_TYPED, Companions
from fedrule.evidence.home_graph import Graphs, Table, Vocabulary

EASE_SCALE = 5.0  # brings the scores of EASE, mostly below 0.3, to the size of the other features
WORD = "word: "  # what the names of features by words begin with

# The names of all features, block by block as in fedrule/evidence/feature_blocks.py.
HOME_NAMES = (
    "rules of the home",
    *(
        f"rules of the home, same {pattern}"
        for pattern in (
            "relation",
            "state",
            "act",
            "trigger_type, state",
            "action_type, act",
            "trigger_type, action_type",
            "trigger_type, relation",
            "action_type, relation",
            "trigger_type, action_type, state",
            "trigger_type, action_type, act",
            "trigger_type, action_type, relation",
        )
    ),
    "devices",
    "devices of the trigger's type",
    "devices of the action's type",
    f"{WORD}share of the home's rules of these types in one room",
)
GIVEN_NAMES = (
    "goes with the home's rules",
    *counts.NAMES,
    f"{WORD}share of homes that keep rules of these types in one room",
    f"{WORD}share of homes that keep the typed rule in one room",
)
TRIGGER_NAMES = (
    *(
        f"rules of the home, same {pattern}"
        for pattern in (
            "trigger",
            "trigger, state",
            "trigger, act",
            "trigger, relation",
            "trigger, action_type",
            "trigger, action_type, state",
            "trigger, action_type, relation",
        )
    ),
    "rules that act on the trigger",
    f"{WORD}the trigger has one",
    "goes with a relation of the trigger",
)
ACTION_NAMES = (
    *(
        f"rules of the home, same {pattern}"
        for pattern in (
            "action",
            "action, act",
            "action, state",
            "action, relation",
            "action, trigger_type",
            "action, trigger_type, act",
            "action, trigger_type, relation",
        )
    ),
    "rules that the action triggers",
    f"{WORD}the action has one",
    "goes with a relation of the action",
)
PAIR_NAMES = (
    "paths by one device",
    "paths acted on by one device",
    "paths act on one device",
    "paths by three rules",
    "paths by three rules, in the mean",
    "rules of the home, same trigger, action",
    "rules from the action to the trigger",
    "acts on itself",
    f"{WORD}rarity of all that are shared",
    f"{WORD}rarity of the rarest that is shared",
    f"{WORD}cosine",
    f"{WORD}devices of the action's type nearer to the trigger",
    f"{WORD}devices of the action's type as near to the trigger",
    f"{WORD}devices of the trigger's type nearer to the action",
    f"{WORD}devices of the trigger's type as near to the action",
    f"{WORD}rules of the trigger in the room of the action",
    f"{WORD}largest cosine of the action and what the trigger acts on",
    f"{WORD}rules on the action from the room of the trigger",
    f"{WORD}largest cosine of the trigger and what acts on the action",
    f"{WORD}share of the home's rules in one room",
    f"{WORD}the same, where trigger and action share one",
)
MATCHING_NAMES = (
    "rules of the home, same trigger, action, state",
    "rules of the home, same trigger, action, act",
    f"{WORD}rules of the trigger in the room of the action, same state",
    f"{WORD}rules of the trigger in the room of the action, same relation",
    f"{WORD}rules on the action from the room of the trigger, same relation",
    "goes with a relation of trigger and action",
)
NAMES = (*HOME_NAMES, *GIVEN_NAMES, *TRIGGER_NAMES, *ACTION_NAMES, *PAIR_NAMES, *MATCHING_NAMES)
IS_WORD = np.array([name.startswith(WORD) for name in NAMES])
EASE = N_HOME  # the column of "goes with the home's rules"
FREQUENCIES = slice(EASE + 1, EASE + 1 + len(counts.NAMES))
ROOMS = slice(FREQUENCIES.stop, N_TYPED)
# Frequencies among homes are logarithms around -3.5; near 0, as all other features are, training is faster.
LEVEL, SPREAD = -3.5, 1.5
IS_FREQUENCY = np.array([name.startswith("share of homes") for name in NAMES])

Features = Table


def standardized(features: Features, first: int = 0) -> Features:
    """Features that begin with column `first`, near 0 each, as the network takes them."""
    some = IS_FREQUENCY[first : first + features.shape[1]]
    changed = features.copy()
    changed[:, some] = (features[:, some] - LEVEL) / SPREAD
    return changed


def graphs(homes: Homes, *, words: bool = True) -> Graphs:
    """Homes as the compiled loops take them, without words if so asked."""
    rules = homes.rules
    word_start, word = np.zeros(homes.n_devices + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if words and homes.words is not None:
        word_start, word = homes.word_start, homes.words.word
    ends = rules.trigger, rules.action, rules.relation
    return Graphs(*map(read_only, (homes.device_start, homes.device_type, homes.rule_start, *ends, word_start, word)))


def vocabulary(valid: ValidRules, reader: ColumnReader) -> Vocabulary:
    """Valid rules and the halves of relations as the compiled loops take them."""
    state, act = reader.state, reader.act
    arrays = map(read_only, (valid.start, valid.relation, state.values, act.values))
    return Vocabulary(valid.n_types, state.size, act.size, *arrays)


def companion_tables(counted: CompanionCounts, own_start: Array, own: Array) -> Companions:
    """Counts of relations in common as the compiled loops take them, with the cells that homes leave out."""
    together, typed_start, typed = counted.tables
    tables = read_only(together), read_only(typed_start), read_only(typed)
    return Companions(*tables, read_only(own_start), read_only(own))


def given_features(valid: ValidRules, reader: ColumnReader, frequencies: HomeFrequencies, rooms: RoomCounts) -> Table:
    """[n_valid, n_given]: what is the same for a typed rule in all homes; EASE, which is not, is 0."""
    given = np.zeros((len(valid), N_GIVEN), dtype=np.float32)
    given[:, 1 : 1 + len(counts.NAMES)] = frequencies.table(reader, valid.cell, less=0)[:, 0].T
    given[:, 1 + len(counts.NAMES) :] = rooms.log_shares_of_valid()
    return given


def ease_scale(able: Matrix) -> Matrix:
    """[n_valid]: what the scores of EASE are multiplied by, given the share of homes that could have each rule."""
    return np.asarray(EASE_SCALE / able**OWNERSHIP)
