"""An installation from its configuration folder: YAML with includes and packages, and the registries in .storage.

The folder of a running server has everything; a public repository has the YAML only. `!secret` is never looked up, and
of .storage only the registries of areas, devices and entities, the last states of automations and the version are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from datasets.common.errors import DataError
from fedrule.homeassistant.installation import (
    Automation,
    Blueprint,
    Entity,
    Installation,
    Problem,
    Script,
    items,
    mapping,
    read_json,
    text,
)
from fedrule.homeassistant.readers import blueprints, registries
from fedrule.homeassistant.readers.config_yaml import ConfigReader
from fedrule.homeassistant.readers.yaml_entities import customized, named_entities, slug, yaml_entities

MAIN = "configuration.yaml"
# Files that the main one usually includes: read by name only where it cannot be.
USUAL = {
    "automation": ("automations.yaml", "automation.yaml", "automations", "automation"),
    "script": ("scripts.yaml", "scripts"),
    "scene": ("scenes.yaml",),
    "group": ("groups.yaml",),
}
STORED_BYTES = 100_000_000
SEARCH_DEPTH = 2  # folders below the given one that may hold the configuration


def read_folder(folder: Path | str) -> Installation:
    """The installation of a configuration folder, or of the nearest one below; a `DataError` if there is none."""
    given = Path(folder)
    root = configuration_folder(given)
    if root is None:
        what = f"it has no {MAIN} and no automations.yaml" if given.is_dir() else "there is no such folder"
        raise DataError(f"{folder}: {what}; give the folder of a Home Assistant configuration")
    reading = _Reading(ConfigReader(root), given)
    reading.yaml(root)
    reading.storage(root / ".storage")
    return reading.installation()


def configuration_folder(folder: Path) -> Path | None:
    """The folder itself or the nearest one below that has a main file, or else automations; None if none has."""
    level = [folder] if folder.is_dir() else []
    levels = []
    for _ in range(SEARCH_DEPTH + 1):
        levels.append(level)
        level = [below for each in level for below in _folders(each)]
    for name in (MAIN, "automations.yaml", "automations"):
        for each in (each for level in levels for each in level):
            if (each / name).exists():
                return each
    return None


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if p.is_dir() and not p.is_symlink() and not p.name.startswith("."))
    except OSError:
        return []


@dataclass
class _Reading:
    """One configuration while it is read."""

    reader: ConfigReader
    given: Path
    automations: list[Automation] = field(default_factory=list)
    scripts: dict[str, Script] = field(default_factory=dict)
    scenes: dict[str, Script] = field(default_factory=dict)
    defined: dict[str, Entity] = field(default_factory=dict)
    customized: dict[str, Entity] = field(default_factory=dict)  # what `customize` says goes before all else
    blueprints: dict[str, Blueprint] = field(default_factory=dict)
    stored: Installation = field(default_factory=lambda: Installation(""))
    entity_of: dict[tuple[str, str], str] = field(default_factory=dict)  # (platform, unique id) -> entity id
    states: dict[str, str] = field(default_factory=dict)  # the last ones, of automations

    def yaml(self, root: Path) -> None:
        main = self.reader.read(root / MAIN) if (root / MAIN).exists() else None
        if isinstance(main, Mapping):
            self._configuration(main)
        else:
            self._usual(root)
        trackers = root / "known_devices.yaml"
        if trackers.exists():
            for key, about in mapping(self.reader.read(trackers)).items():
                if registries.is_entity_id(f"device_tracker.{key}"):
                    tracker = f"device_tracker.{key}"
                    self._define(Entity(tracker, name=text(mapping(about).get("name")), known_from="yaml"))

    def _usual(self, root: Path) -> None:
        for domain, names in USUAL.items():
            for name in names:
                path = root / name
                for file in [path] if path.is_file() else sorted(path.rglob("*.yaml")) if path.is_dir() else []:
                    self._section(domain, self.reader.read(file))
        for file in sorted((root / "packages").rglob("*.yaml")) if (root / "packages").is_dir() else []:
            self._configuration(mapping(self.reader.read(file)))

    def _configuration(self, configuration: Mapping[str, object], *, in_package: bool = False) -> None:
        for key, section in configuration.items():
            domain = key.partition(" ")[0]
            if domain == "homeassistant":
                core = mapping(section)
                if not in_package:
                    for package in self._packages(core.get("packages")):
                        self._configuration(package, in_package=True)
                for entity_id, attributes in customized(core.get("customize")):
                    self._customize(entity_id, attributes)
            else:
                self._section(domain, section)

    def _packages(self, packages: object) -> Iterator[Mapping[str, object]]:
        """By name, or as a list of them."""
        for each in items(packages):
            for name, package in mapping(each).items():
                if isinstance(package, Mapping):
                    yield package
                elif package is not None:
                    self.reader.problems.append(Problem(f"package {name[:60]}", "not a mapping; skipped"))

    def _section(self, domain: str, section: object) -> None:
        if domain == "automation":
            for each in _flat(section):
                self._automation(each)
        elif domain == "scene":
            for each in _flat(section):
                about = mapping(each)
                name = text(about.get("name"))
                entity_id = f"scene.{slug(name)}"
                if slug(name):
                    self.scenes[entity_id] = Script(entity_id, about, getattr(each, "where", ""))
                    members = tuple(mapping(about.get("entities")))
                    self._define(Entity(entity_id, name=name, platform="scene", members=members, known_from="yaml"))
        else:
            if domain == "script":
                for key, definition in mapping(section).items():
                    entity_id = f"script.{key}"
                    if registries.is_entity_id(entity_id):
                        where = getattr(definition, "where", "")
                        self.scripts[entity_id] = Script(entity_id, mapping(definition), where)
            for entity in yaml_entities(domain, section):
                self._define(entity)

    def _automation(self, config: object) -> None:
        where = getattr(config, "where", "automation")
        if not isinstance(config, Mapping):
            if config is not None:
                self.reader.problems.append(Problem(where, "an automation that is not a mapping; skipped"))
            return
        path = blueprints.used_blueprint(config)
        id_ = config.get("id")
        made: Mapping[str, object] = config
        problem = ""
        if path:
            made, problem = self._from_blueprint(config, path)
            if problem:
                self.reader.problems.append(Problem(where, problem))
        self.automations.append(
            Automation(
                made,
                where,
                id=str(id_) if isinstance(id_, (str, int)) else "",
                blueprint=path,
                problem=problem,
            )
        )

    def _from_blueprint(self, config: Mapping[str, object], path: str) -> tuple[Mapping[str, object], str]:
        """The automation that a blueprint makes, or why it is not known."""
        if path not in self.blueprints:
            file = self.reader.root / "blueprints" / "automation" / path
            content = self.reader.read(file) if file.exists() else None
            if isinstance(content, Mapping):
                self.blueprints[path] = Blueprint(path, content)
            elif path in blueprints.built_in():
                self.blueprints[path] = blueprints.built_in()[path]
            else:
                return config, f"its blueprint {path[:120]} is not in the folder"
        try:
            return blueprints.substituted(config, self.blueprints[path]), ""
        except blueprints.MissingInput as error:
            return config, f"blueprint {path[:120]}: {error}"

    def _define(self, entity: Entity) -> None:
        self.defined.setdefault(entity.entity_id, entity)

    def _customize(self, entity_id: str, attributes: Mapping[str, object]) -> None:
        self.customized[entity_id] = Entity(
            entity_id,
            name=text(attributes.get("friendly_name")),
            device_class=text(attributes.get("device_class")),
            hidden=attributes.get("hidden") is True,
            known_from="yaml",
        )

    def storage(self, folder: Path) -> None:
        """The registries, where the folder has them."""
        areas = registries.areas(self._stored(folder / "core.area_registry", "areas"))
        devices = registries.devices(self._stored(folder / "core.device_registry", "devices"))
        records = list(self._stored(folder / "core.entity_registry", "entities"))
        entities = registries.entities(records, devices)
        for record in map(mapping, records):
            key = text(record.get("platform")), str(record.get("unique_id"))
            self.entity_of[key] = text(record.get("entity_id"))
        restored = self._stored(folder / "core.restore_state", "")
        for state in (mapping(mapping(each).get("state")) for each in restored):
            self.states[text(state.get("entity_id"))] = text(state.get("state"))
        version = folder.parent / ".HA_VERSION"
        try:
            number = version.read_text("utf-8")[:40].strip() if version.is_file() else ""
        except (OSError, UnicodeError):
            number = ""
        self.stored = Installation("", version=number, entities=entities, areas=areas, devices=devices)

    def _stored(self, path: Path, key: str) -> list[object]:
        """The list below data.`key` of a file in .storage; empty and a problem if it cannot be read."""
        try:
            if not path.is_file():
                return []
            if path.stat().st_size > STORED_BYTES:
                self.reader.problem(path, f"more than {STORED_BYTES:,} bytes; skipped")
                return []
            data = mapping(read_json(path.read_bytes())).get("data")
        except (OSError, ValueError, RecursionError):
            self.reader.problem(path, "not a readable JSON file; skipped")
            return []
        found = mapping(data).get(key) if key else data
        return found if isinstance(found, list) else []

    def installation(self) -> Installation:
        """Everything put together."""
        entities = self._entities()
        automations = self._with_entity_ids()
        for automation in automations:
            about = entities.get(automation.entity_id) or Entity(automation.entity_id, known_from="yaml")
            named = replace(about, name=about.name or automation.alias, platform="automation")
            entities[automation.entity_id] = named
        return Installation(
            str(self.given),
            version=self.stored.version,
            entities=dict(sorted(entities.items())),
            areas=self.stored.areas,
            devices=self.stored.devices,
            automations=automations,
            scripts=tuple(self.scripts[key] for key in sorted(self.scripts)),
            scenes=tuple(self.scenes[key] for key in sorted(self.scenes)),
            blueprints=self.blueprints,
            problems=tuple(self.reader.problems),
        )

    def _entities(self) -> dict[str, Entity]:
        """The registry knows best; YAML adds what is not registered, and `customize` goes before both."""
        entities = dict(self.stored.entities)
        for entity_id, entity in self.defined.items():
            known = entities.get(entity_id) or entities.get(self._renamed(entity_id, entity))
            entities[known.entity_id if known else entity_id] = _merged(known, entity) if known else entity
        for entity_id, stated in self.customized.items():
            known = entities.get(entity_id)
            entities[entity_id] = _merged(stated, known) if known else stated
        for entity in list(entities.values()):
            if entity.domain == "light" and entity.members and not entity.color_modes:
                modes = _modes_of_group([entities[each].color_modes for each in entity.members if each in entities])
                entities[entity.entity_id] = replace(entity, color_modes=modes)
        if not self.stored.entities:  # a public repository: what its YAML names is all that is known
            for entity_id in self._named():
                entities.setdefault(entity_id, Entity(entity_id, known_from="yaml"))
        return entities

    def _named(self) -> Iterator[str]:
        """The entities that automations, scripts, scenes and groups name."""
        configs: list[object] = [automation.config for automation in self.automations]
        configs += [script.config for script in (*self.scripts.values(), *self.scenes.values())]
        for config in configs:
            yield from named_entities(config)
        for entity in self.defined.values():
            yield from entity.members

    def _renamed(self, entity_id: str, entity: Entity) -> str:
        """A helper's key is its unique id: its owner may have given it another entity id."""
        return self.entity_of.get((entity.platform, entity_id.partition(".")[2]), "")

    def _with_entity_ids(self) -> tuple[Automation, ...]:
        """Each automation with its entity id, by its id in the registry or by its alias, and whether it is on."""
        found: list[Automation] = []
        taken: set[str] = set(self.stored.entities)
        for number, automation in enumerate(self.automations):
            entity_id = self.entity_of.get(("automation", automation.id), "") if automation.id else ""
            if not entity_id:
                first = f"automation.{slug(automation.alias) or f'automation_{number}'}"
                entity_id, again = first, 2
                while entity_id in taken:
                    entity_id, again = f"{first}_{again}", again + 1
            taken.add(entity_id)
            stated = str(automation.config.get("initial_state")).lower()
            on = self.states.get(entity_id) != "off" if stated == "none" else stated not in ("off", "false", "no", "0")
            found.append(replace(automation, entity_id=entity_id, enabled=on))
        return tuple(found)


def _merged(first: Entity, other: Entity) -> Entity:
    """What the first one says, and where it says nothing the other."""
    said = {name: getattr(first, name) for name in _FIELDS if getattr(first, name)}
    return replace(other, **{**said, "entity_id": first.entity_id, "known_from": other.known_from})


_FIELDS = tuple(each.name for each in fields(Entity))


def _modes_of_group(members: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """What a group of lamps can do, as the server says it: all that a member can, the lesser only if nothing else."""
    able = {mode for modes in members for mode in modes}
    for lesser in ("onoff", "brightness"):
        if len(able) > 1:
            able.discard(lesser)
    return tuple(sorted(able))


def _flat(section: object) -> Iterator[object]:
    """The items of a list, of lists in it (from !include_dir_list), and of a single mapping."""
    for each in items(section):
        if isinstance(each, list):
            yield from _flat(each)
        else:
            yield each
