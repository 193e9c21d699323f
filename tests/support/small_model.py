"""A small model of smart homes with drawn weights, for tests of what is built around a model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from baselines.registry import build
from datasets.homes import Relation
from datasets.valid import ValidRules
from fedrule.models.card import Card, TrainingRun
from fedrule.models.file import SavedModel
from tests.support.random_models import random_model

TYPES = ("Camera", "ContactSensor", "Light", "Lock", "MotionSensor", "Plug", "Thermostat")
RELATIONS = (
    Relation("Open", "Power On"),
    Relation("Closed", "Power Off"),
    Relation("Motion Detected", "Power On"),
    Relation("Motion Cleared", "Power Off"),
    Relation("Person Detected", "Lock"),
    Relation("Open", "Set Temperature"),
)
TYPED = (  # trigger type, relation, action type, and how many of 100 homes have it
    ("ContactSensor", 0, "Light", 40),
    ("ContactSensor", 0, "Plug", 12),
    ("ContactSensor", 1, "Light", 22),
    ("ContactSensor", 5, "Thermostat", 7),
    ("MotionSensor", 2, "Light", 55),
    ("MotionSensor", 2, "Plug", 9),
    ("MotionSensor", 3, "Light", 31),
    ("Camera", 2, "Light", 18),
    ("Camera", 4, "Lock", 3),
)


def small_model(*, seed: int = 0, method: str = "graphrule") -> SavedModel:
    """Untrained: its lists are in a drawn order, but among the valid rules only."""
    n_types, n_relations = len(TYPES), len(RELATIONS)
    cells = {}
    for trigger, relation, action, homes in TYPED:
        cells[(TYPES.index(trigger) * n_types + TYPES.index(action)) * n_relations + relation] = homes
    valid = ValidRules.of_cells(n_types, n_relations, np.array(sorted(cells), dtype=np.int64))
    drawn = random_model(TYPES, RELATIONS, seed=seed, hidden=16, size=0.4).arrays
    weights = {name: array for name, array in drawn.items() if name.startswith("weights.")}
    card = Card(
        method=method,
        options=asdict(build(method)),
        types=TYPES,
        relations=RELATIONS,
        trainings=(
            TrainingRun("toy", "0" * 16, homes=100, rules=197, seed=seed, rounds=0, trained_at="2026-01-01T00:00:00Z"),
        ),
        metrics={"ranking": {"mrr": 0.25}},
        versions={"fedrule": "0.1.0"},
    )
    counts = {
        "counts.homes": np.array([100], dtype=np.int64),
        "counts.have": np.array([cells[cell] for cell in valid.cell.tolist()], dtype=np.int64),
        "counts.self_rules": np.zeros(len(valid), dtype=np.int64),
        "counts.both": np.full(n_types**2, 60, dtype=np.int64),
    }
    return SavedModel(card, {**weights, **counts, "valid.cell": valid.cell})


def saved_model(path: Path, *, seed: int = 0, method: str = "graphrule") -> Path:
    """The model as a file."""
    small_model(seed=seed, method=method).save(path)
    return path


def slow_model(path: Path, *, relations: int = 1_000) -> Path:
    """Of as many relations, all of them valid: a home of 100 devices takes about a second."""
    words = [Relation(f"State {at}", "Power On") for at in range(relations)]
    random_model(TYPES, words, hidden=16, valid=1.0).save(path)
    return path


def slow_home(n_devices: int) -> dict[str, object]:
    """For a slow model: devices of all types in turn, each with other rules, so that no two are searched at once."""
    random = np.random.default_rng(0)
    devices = [{"id": at, "type": TYPES[at % len(TYPES)]} for at in range(n_devices)]
    rules = [
        {"trigger": trigger, "trigger_state": "State 0", "action": "Power On", "action_device": action}
        for action, triggers in enumerate(random.integers(n_devices, size=(n_devices, 4)).tolist())
        for trigger in triggers
    ]
    return {"devices": devices, "rules": rules}


def home(n_devices: int = 5, *, rules: int = 1) -> dict[str, object]:
    """Devices of all types in turn, and rules from the motion sensor to each lamp, as a request tells them."""
    turn = ("ContactSensor", "Light", "MotionSensor", "Plug", "Camera")
    devices = [{"id": f"d{at}", "type": turn[at % 5], "name": f"Device {at}"} for at in range(n_devices)]
    known = [
        {"trigger": "d2", "trigger_state": "Motion Detected", "action": "Power On", "action_device": f"d{lamp}"}
        for lamp in range(1, n_devices, 5)
    ]
    return {"devices": devices, "rules": known[:rules] if n_devices > 2 else []}
