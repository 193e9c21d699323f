"""The homes of a node, from wherever they are, in the vocabulary of the federation.

A node holds one home, a HOME.json as `python -m fedrule recommend` takes it or the configuration folder of a Home
Assistant, or many: a .parquet file of homes, or a .toml file that describes databases. Names that the federation does
not know are refused, or left out and counted.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from datasets.common.errors import DataError, unknown
from datasets.homes import Homes, Rules, Words

if TYPE_CHECKING:
    from fedrule.flower.vocabulary import Vocabulary
    from fedrule.inference.request import HomeRequest

log = logging.getLogger(__name__)

Unknown: TypeAlias = Literal["refuse", "ignore"]
REMEDY = (
    'set unknown_names="ignore" in the node-config to leave such devices and rules out, or let whoever runs the '
    "federation add the name to its vocabulary"
)


def read_homes(source: Path, vocabulary: Vocabulary, *, if_unknown: Unknown = "refuse") -> Homes:
    """The homes of a file, encoded by the vocabulary."""
    if if_unknown not in get_args(Unknown):
        raise unknown("value of unknown_names", if_unknown, get_args(Unknown))
    if not source.exists():
        raise DataError(f"{source}: no such file; homes= in the node-config names the homes of this node")
    if source.suffix == ".json" or source.is_dir():
        return _read_home(source, vocabulary, if_unknown)
    # Imported here: they bring pandas and pyarrow, which no other message needs.
    if source.suffix == ".toml":
        from fedrule.pipeline import Pipeline

        homes = Pipeline.from_file(source).load()
    elif source.suffix == ".parquet":
        from datasets.storage import load_file

        homes = load_file(source)
    else:
        raise DataError(
            f"{source}: a node reads homes from a .parquet, .toml or .json file, or from the configuration folder of a "
            "Home Assistant"
        )
    return encoded(homes, vocabulary, if_unknown=if_unknown, where=str(source))


def encoded(homes: Homes, vocabulary: Vocabulary, *, if_unknown: Unknown, where: str) -> Homes:
    """The same homes in another vocabulary."""
    types, relations = set(vocabulary.types), set(vocabulary.relations)
    used_types, used_relations = np.unique(homes.device_type), np.unique(homes.rules.relation)
    foreign_types = [homes.types[i] for i in used_types.tolist() if homes.types[i] not in types]
    foreign_relations = [homes.relations[i] for i in used_relations.tolist() if homes.relations[i] not in relations]
    if if_unknown == "refuse":
        for kind, names in (("entity type", foreign_types), ("relation", foreign_relations)):
            if names:
                more = f" and {len(names) - 1} more" if len(names) > 1 else ""
                raise DataError(f"{where}: the federation does not know the {kind} {names[0]!s}{more}; {REMEDY}")
    if foreign_types or foreign_relations:
        known = np.array([name in types for name in homes.types])[homes.device_type]
        usable = np.array([pair in relations for pair in homes.relations])[homes.rules.relation]
        usable &= known[homes.rules.trigger] & known[homes.rules.action]
        place = np.cumsum(known) - 1
        rules = homes.rules.take(usable)
        left_out = int((~known).sum()), int((~usable).sum())
        log.warning("%s: left out %d devices and %d rules that the federation does not know", where, *left_out)
        homes = replace(
            homes,
            device_home=homes.device_home[known],
            device_type=homes.device_type[known],
            device_ids=homes.device_ids[known],
            rules=Rules(rules.home, place[rules.trigger], place[rules.action], rules.relation, rules.group),
            words=homes.words_of(np.flatnonzero(known)),
        )
    return homes.with_vocabulary(vocabulary.types, vocabulary.relations)


def _home_assistant(folder: Path) -> HomeRequest:
    from fedrule.homeassistant import read_folder, read_home  # with PyYAML

    home = read_home(read_folder(folder))
    log.info("%s: %s", folder, home.coverage())
    return home.request()


def _read_home(source: Path, vocabulary: Vocabulary, if_unknown: Unknown) -> Homes:
    from fedrule.inference.encode import HomeEncoder
    from fedrule.inference.request import BadHome, HomeRequest

    try:
        home = _home_assistant(source) if source.is_dir() else HomeRequest.read(str(source))
        found = HomeEncoder(vocabulary).encode(home, if_unknown)
    except BadHome as error:
        remedy = f"; {REMEDY}" if error.code.startswith("unknown_") else ""
        where = error.where if error.where.startswith(str(source)) else f"{source} {error.where}"
        raise DataError(f"{where}: {error.message}{remedy}") from None
    for sentence in found.ignored:
        log.warning("%s: left out %s", source, sentence)
    graph = found.graph
    n_devices, n_rules = len(graph.device_type), len(graph.trigger)
    return Homes(
        source.stem,
        vocabulary.types,
        vocabulary.relations,
        users=np.zeros(1, dtype=np.int64),
        device_home=np.zeros(n_devices, dtype=np.int64),
        device_type=graph.device_type,
        device_ids=np.arange(n_devices),
        rules=Rules(np.zeros(n_rules, dtype=np.int64), graph.trigger, graph.action, graph.relation),
        words=Words(graph.word_device, graph.word) if len(graph.word) else None,
    )
