"""Words of the names of synthetic devices: mostly the zone of a device, with the gaps and errors of real names."""

from __future__ import annotations

import numpy as np

from datasets.homes import Array, Words, starts
from datasets.synthetic.households import ANYWHERE, Households
from datasets.words import tells_apart

NAMED = 0.8  # share of devices that are called after a zone
ELSEWHERE = 0.08  # of these, called after the zone of any device of the home: it was moved, or two rooms share a word
FLOOR = 0.35  # share of devices, called after a zone, whose name also says the floor
ZONES_PER_FLOOR = 3


def draw_words(households: Households, rng: np.random.Generator) -> Words:
    """Words of devices, without those that real data leaves out: of one device only, or of more than half of a home."""
    home, zone, start = households.device_home, households.zone, households.start
    n_devices, size = len(home), np.diff(households.start)
    any_device = start[home] + (size[home] * rng.random(n_devices)).astype(np.int64)
    said = np.where(rng.random(n_devices) < ELSEWHERE, zone[any_device], zone)
    said = np.where((rng.random(n_devices) < NAMED) & (zone != ANYWHERE), said, ANYWHERE)
    named = np.flatnonzero(said != ANYWHERE)
    upstairs = named[rng.random(len(named)) < FLOOR]
    # Zones are numbered home by home, so that a floor of one home is never one of another.
    first_zone = np.full(households.n_homes, np.iinfo(np.int64).max)
    np.minimum.at(first_zone, home[zone != ANYWHERE], zone[zone != ANYWHERE])
    n_zones = len(households.zone_intent)
    floor = n_zones + first_zone[home[upstairs]] + (zone[upstairs] - first_zone[home[upstairs]]) // ZONES_PER_FLOOR
    device, word = np.concatenate([named, upstairs]), np.concatenate([said[named], floor])
    kept = tells_apart(np.bincount(word)[word], size[home[device]])
    return Words.of(device[kept], _within_home(home[device[kept]], word[kept], households.n_homes))


def _within_home(home: Array, word: Array, n_homes: int) -> Array:
    """The same words, none of which two homes share, numbered from 0 on in each home."""
    words, place = np.unique(word, return_inverse=True)
    of_home = np.zeros(len(words), dtype=np.int64)
    of_home[place] = home
    order = np.argsort(of_home, kind="stable")
    number = np.empty(len(words), dtype=np.int64)
    number[order] = np.arange(len(words)) - starts(of_home[order], n_homes)[of_home[order]]
    return number[place]
