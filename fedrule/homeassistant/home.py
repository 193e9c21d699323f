"""The home of an installation: its devices with types and rooms, and the rules that its automations are.

home = read_home(read_folder("/config"))
home.request()                  # the HomeRequest that a Recommender answers
home.to_json()                  # the same as JSON, for `fedrule recommend`
print(home.coverage())          # how many automations gave rules, and why others did not
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from datasets.common.files import Json
from fedrule.homeassistant.installation import Entity, Installation
from fedrule.homeassistant.translation.devices import Devices, only_in_rules
from fedrule.homeassistant.translation.rules import AutomationRule, Outcome, read_automation
from fedrule.inference.request import HomeRequest, RequestDevice, RequestRule


@dataclass(frozen=True, slots=True)
class HomeDevice:
    """A device of the home: an entity, or one of the others that `translation.devices` lists."""

    id: str  # the entity id, where it is one
    type: str
    name: str = ""
    room: str = ""  # the name of its area
    entity: Entity | None = None  # with what it can do, where it is known


@dataclass(frozen=True, slots=True)
class InstalledHome:
    """Devices, rules and what became of each automation."""

    installation: Installation
    devices: tuple[HomeDevice, ...]  # sorted by id
    outcomes: tuple[Outcome, ...]  # one for each automation, in the order of the installation
    unresolved: Mapping[str, int]  # parts of automations that name no device, by reason

    @property
    def rules(self) -> tuple[AutomationRule, ...]:
        """The rules of automations that are on, each once."""
        return tuple(dict.fromkeys(rule for _, rule in self.grouped_rules()))

    @property
    def rules_switched_off(self) -> tuple[AutomationRule, ...]:
        """Those that only automations have which are off: the owner knows them, and should not be told again."""
        on = set(self.rules)
        off = (rule for outcome in self.outcomes if not outcome.automation.enabled for rule in outcome.rules)
        return tuple(dict.fromkeys(rule for rule in off if rule not in on))

    def grouped_rules(self, *, switched_off: bool = False) -> Iterator[tuple[int, AutomationRule]]:
        """Each rule once, with the number of the first automation that has it; of those that are on, or of all."""
        seen: set[AutomationRule] = set()
        for number, outcome in enumerate(self.outcomes):
            if outcome.automation.enabled or switched_off:
                for rule in outcome.rules:
                    if rule not in seen:
                        seen.add(rule)
                        yield number, rule

    def request(self) -> HomeRequest:
        """The home for a `Recommender`; its words come from the names and rooms."""
        devices = [RequestDevice(device.id, device.type, device.name, device.room) for device in self.devices]
        return HomeRequest(devices, [RequestRule(*rule) for rule in sorted(self.rules)])  # the same however it was read

    def to_json(self) -> Json:
        """The home as `fedrule recommend` reads it. It has names: it is meant for this machine."""
        devices: list[Json] = [
            {"id": d.id, "type": d.type, **({"name": d.name} if d.name else {}), **({"room": d.room} if d.room else {})}
            for d in self.devices
        ]
        rules: list[Json] = [dict(rule._asdict()) for rule in sorted(self.rules)]
        return {"devices": devices, "rules": rules}

    def without_rule(self) -> tuple[Outcome, ...]:
        """The automations that gave no rule, each with its reason."""
        return tuple(outcome for outcome in self.outcomes if not outcome.rules)

    def coverage(self) -> str:
        """A summary for people: counts, and reasons by how often they occur."""
        none = self.without_rule()
        lines = [
            f"{len(self.outcomes):,} automations, {len(self.outcomes) - len(none):,} give rules; "
            f"{len(self.rules):,} rules between {len(self.devices):,} devices"
        ]
        reasons = Counter(outcome.reason for outcome in none)
        lines += [f"  {count:,} without a rule: {reason}" for reason, count in reasons.most_common()]
        lines += [f"  {count:,} parts of automations: {reason}" for reason, count in sorted(self.unresolved.items())]
        lines += [f"  not read: {problem}" for problem in self.installation.problems]
        return "\n".join(lines)


def read_home(installation: Installation, *, unused: bool = True) -> InstalledHome:
    """The home of an installation; without `unused`, only the devices that rules use.

    Entities that are diagnostic, for configuration, hidden or disabled are devices only where a rule uses them, and so
    are automations, trackers and others that types.toml lists as `only_in_rules`.
    """
    devices = Devices(installation)
    outcomes = tuple(read_automation(automation, devices) for automation in installation.automations)
    in_rules = {id_ for outcome in outcomes for rule in outcome.rules for id_ in (rule.trigger, rule.action_device)}
    wanted = in_rules | {id_ for id_, entity in installation.entities.items() if unused and _is_device(entity)}
    found = (_device(id_, devices) for id_ in sorted(wanted))
    return InstalledHome(installation, tuple(found), outcomes, dict(devices.unresolved))


def _is_device(entity: Entity) -> bool:
    return entity.for_people and not only_in_rules(entity.domain)


def _device(id_: str, devices: Devices) -> HomeDevice:
    installation = devices.installation
    entity = installation.entities.get(id_)
    used = devices.used.get(id_)
    if entity is None and used is not None and used.type:
        area = installation.areas.get(used.area)
        return HomeDevice(id_, used.type, used.name, area.name if area else "")
    name = entity.name if entity and entity.name else id_.partition(".")[2].replace("_", " ")
    return HomeDevice(id_, devices.type_of(id_), name, installation.area_name(id_), entity)


def rooms(home: InstalledHome) -> Sequence[str]:
    """The names of the areas that devices of the home are in, sorted."""
    return sorted({device.room for device in home.devices if device.room})
