"""`fedrule hass`: time and memory from command to list by the number of entities, and how often a list is right.

A folder is made up: rooms with lamps, sensors, covers and so on, two automations for a room. The reference of the
same run is the same command that only reads the home. Lists are measured on homes that gave no data: a fifth of the
real homes is held back from training, 30 % of each one's automations are hidden, and a list is right if a line of it
is a hidden rule; beside it, the first ten of the model's own order, and the same list of the rules that most homes
have. A real home also owns devices that no automation uses, which the data does not have: `unused` adds as many times
its devices, of the types of another home and with words of its own names.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
import fedrule

pytest.importorskip("numba", reason="a model of graphrank needs the extra infer")
pytest.importorskip("yaml", reason="reading a Home Assistant needs the extra hass")

from benchmarks.speed.measure import note_ratio, peak_megabytes, seconds
from datasets.common.errors import DataError
from datasets.common.random import Stream, generator
from datasets.homes import Homes, Rules
from datasets.splits import split
from fedrule.homeassistant.selection import Selection, rule_of
from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.writing.automation import WrittenAutomation
from fedrule.inference import HomeRequest, Recommendation, Recommender, RequestDevice

ENTITIES = {"smoke": (100,), "default": (100, 300, 1_000), "paper": (100, 300, 1_000, 3_000, 5_000)}
SEEDS = {"smoke": 1, "default": 3, "paper": 5}  # other homes are held back for each
UNUSED = (0, 1, 3)
FIRST_SEED = 10  # what the list leaves out was chosen on other divisions of the homes
MIN_HOMES = 3
HELD_BACK, HIDDEN = 0.2, 0.3
K = 10
CANDIDATES = 20_000
# Domain, device class, and what the entities of a room are called.
KINDS = (
    ("light", "", "Ceiling light"),
    ("binary_sensor", "motion", "Motion"),
    ("sensor", "temperature", "Temperature"),
    ("switch", "", "Plug"),
    ("binary_sensor", "window", "Window"),
    ("sensor", "humidity", "Humidity"),
    ("light", "", "Lamp"),
    ("cover", "shutter", "Shutter"),
    ("sensor", "illuminance", "Brightness"),
    ("media_player", "speaker", "Speaker"),
    ("climate", "", "Heating"),
    ("sensor", "power", "Power"),
)


@cache
def real_homes() -> Homes:
    try:
        return datasets.load("home-assistant")
    except DataError as error:
        pytest.skip(f"real homes: {error}")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The one to start with, of docs/home-assistant.md; at the scale smoke of few rounds."""
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    smoke = request.config.getoption("scale") == "smoke"
    options = {"rounds": 2, "least_steps": 1} if smoke else {}
    fedrule.train(real_homes(), "graphrank", options=options, test=0.05, min_homes=MIN_HOMES).save(path)
    return path


def write_folder(folder: Path, entities: int) -> Path:
    """The configuration of a made-up home with so many entities."""
    listed: list[dict[str, object]] = []
    for number in range(entities):
        room, (domain, device_class, name) = number // len(KINDS), KINDS[number % len(KINDS)]
        entity_id = f"{domain}.room_{room}_{name.lower().replace(' ', '_')}"
        listed.append(
            {"entity_id": entity_id, "name": f"Room {room} {name}", "area_id": f"room_{room}"}
            | {"id": f"{number:032x}", "platform": "demo", "unique_id": str(number)}
            | {"original_device_class": device_class or None, "supported_features": 0, "capabilities": {}}
        )
    areas = [{"id": f"room_{room}", "name": f"Room {room}"} for room in range(entities // len(KINDS) + 1)]
    registries = {"core.entity_registry": {"entities": listed}, "core.area_registry": {"areas": areas}}
    (folder / ".storage").mkdir(parents=True)
    for name, content in registries.items():
        (folder / ".storage" / name).write_text(json.dumps({"version": 1, "data": content}))
    automations = [
        f"- alias: Automation {number}\n"
        f"  trigger: {{platform: state, entity_id: binary_sensor.room_{room}_motion, to: '{state}'}}\n"
        f"  action: {{service: light.turn_{state}, target: {{entity_id: light.room_{room}_ceiling_light}}}}\n"
        for number, (room, state) in enumerate(product(range(entities // len(KINDS)), ("on", "off")))
    ]
    (folder / "configuration.yaml").write_text("automation: !include automations.yaml\n")
    (folder / "automations.yaml").write_text("".join(automations))
    return folder


@pytest.mark.parametrize("entities", ENTITIES["paper"])
def test_from_command_to_list(
    benchmark: BenchmarkFixture, scale: str, tmp_path: Path, model: Path, entities: int
) -> None:
    if entities not in ENTITIES[scale]:
        pytest.skip(f"homes of the scale {scale} have up to {ENTITIES[scale][-1]:,} entities")
    folder = write_folder(tmp_path / "config", entities)
    command = [sys.executable, "-m", "fedrule", "hass", str(folder)]
    with_model = [*command, "--model", str(model)]

    def run(command: list[str]) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert "10. " in run(with_model)  # and what is compiled is on disk
    benchmark.pedantic(run, args=(with_model,), rounds=3)
    arguments = with_model[3:]
    note_ratio(
        benchmark,
        1,
        seconds(lambda: run(command), repeats=3),
        entities=entities,
        megabytes=peak_megabytes(f"from fedrule.__main__ import main\nmain({arguments!r})"),
        model_megabytes=model.stat().st_size / 1e6,
    )


def furnished(home: HomeRequest, unused: int, types: list[str], rng: np.random.Generator) -> HomeRequest:
    """The home with `unused` times as many devices more, of these types, each with words of one of its own."""
    words = list(home.device_words())
    more = [RequestDevice(f"unused {at}", str(rng.choice(types))) for at in range(unused * len(words))]
    words += [words[rng.integers(len(words))] for _ in more]
    return home._replace(devices=[*home.devices, *more], words=words)


def lines_of(candidates: Sequence[Recommendation], home: HomeRequest) -> list[AutomationRule]:
    """The lines of the list, as `fedrule hass` chooses them."""
    written = WrittenAutomation({"id": ""})

    def write(candidate: Recommendation) -> WrittenAutomation:  # noqa: ARG001  # the data has no entities
        return written

    rules = [
        AutomationRule(str(rule.trigger), rule.trigger_state, rule.action, str(rule.action_device))
        for rule in home.rules
    ]
    words = {str(device.id): frozenset(some) for device, some in zip(home.devices, home.device_words(), strict=True)}
    selection = Selection(K, rules, (), {}, words, write)
    for candidate in candidates:
        selection.consider(candidate)
        if len(selection.lines) == K:
            break
    return [rule_of(line[0][0]) for line in selection.lines]


@pytest.mark.parametrize("unused", UNUSED)
def test_lists_of_homes_that_gave_no_data(benchmark: BenchmarkFixture, scale: str, unused: int) -> None:
    counted: Counter[str] = Counter()
    homes = real_homes()

    def measure() -> None:
        for seed in range(FIRST_SEED, FIRST_SEED + SEEDS[scale]):
            rng = generator(Stream.FITTING, seed)
            order = rng.permutation(homes.n_homes)
            held_back = np.sort(order[: int(HELD_BACK * homes.n_homes)])
            recommender = trained_without(seed, tuple(held_back.tolist()))
            parts = split(homes.subset(held_back), "holdout", seed=seed, fraction=HIDDEN).test
            others = np.setdiff1d(np.arange(homes.n_homes), held_back)
            for number in range(parts.homes.n_homes):
                hidden = hidden_rules(parts.rules, parts.homes, number)
                if not hidden:
                    continue
                other = homes.device_type[homes.device_home == rng.choice(others)]
                home = HomeRequest.from_home(parts.homes.home(number))
                whole = furnished(home, unused, [homes.types[at] for at in other.tolist()], rng)
                kind = {str(device.id): device.type for device in whole.devices}
                found = recommender.recommend(whole, CANDIDATES, unknown="ignore").rules
                lines = lines_of(found, whole)
                unselected = [rule_of(each) for each in found[:K]]
                commonest = lines_of(sorted(found, key=lambda each: -each.why.homes_with_rule), whole)
                kinds = {_typed(rule, kind) for rule in hidden}
                counted.update(
                    homes=1,
                    lines=len(lines),
                    right=any(rule in hidden for rule in lines),
                    right_unselected=any(rule in hidden for rule in unselected),
                    right_commonest=any(rule in hidden for rule in commonest),
                    exact=sum(rule in hidden for rule in lines),
                    typed=sum(_typed(rule, kind) in kinds for rule in lines),
                )

    benchmark.pedantic(measure, rounds=1)
    benchmark.extra_info |= {
        "unused devices, times its own": unused,
        "homes": counted["homes"],
        "hit rate at 10": counted["right"] / counted["homes"],
        "hit rate at 10 of the model's own order": counted["right_unselected"] / counted["homes"],
        "hit rate at 10 of the commonest rules": counted["right_commonest"] / counted["homes"],
        "lines that are hidden rules": counted["exact"] / counted["lines"],
        "lines of the kind of a hidden rule": counted["typed"] / counted["lines"],
    }


@cache
def trained_without(seed: int, held_back: tuple[int, ...]) -> Recommender:
    """A model of the other homes; the same for every number of unused devices."""
    homes = real_homes()
    others = homes.subset(np.setdiff1d(np.arange(homes.n_homes), held_back))
    return Recommender(fedrule.train(others, "graphrank", seed=seed, test=0.05, min_homes=MIN_HOMES))


def hidden_rules(rules: Rules, homes: Homes, number: int) -> set[AutomationRule]:
    """Those of one home."""
    some = rules.take(rules.home == number)
    ids = homes.device_ids
    relations = (homes.relations[number] for number in some.relation.tolist())
    return {
        AutomationRule(str(ids[trigger]), state, act, str(ids[action]))
        for trigger, (state, act), action in zip(some.trigger, relations, some.action, strict=True)
    }


def _typed(rule: AutomationRule, kind: dict[str, str]) -> tuple[str, str, str, str]:
    return kind[rule.trigger], rule.trigger_state, rule.action, kind[rule.action_device]
