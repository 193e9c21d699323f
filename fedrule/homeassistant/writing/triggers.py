"""The trigger of a rule, as Home Assistant takes it: the reverse of `translation.triggers`."""

from __future__ import annotations

from fedrule.homeassistant.installation import Entity, printable
from fedrule.homeassistant.translation.devices import SERVICES
from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.translation.vocabulary import state_word
from fedrule.homeassistant.writing.tables import (
    Guess,
    HomeLookup,
    Part,
    Unwritable,
    number,
    supports,
    tables,
    without_templates,
)

PEOPLE = ("person", "device_tracker")


def write_trigger(rule: AutomationRule, lookup: HomeLookup) -> Part:
    """The trigger; `Unwritable` says why there is none."""
    kind, _, what = rule.trigger_state.partition(":")
    if kind == "state":
        return _state(rule, what, lookup)
    if kind == "numeric" and what in ("above", "below", "between"):
        return _numeric(rule.trigger, what, lookup)
    if kind == "sun" and rule.trigger == "sun.sun" and what in ("sunset", "sunrise"):
        lookup.entity("sun.sun")
        return Part({"platform": "sun", "event": what})
    if kind == "time":
        return _time(rule, what, lookup)
    if kind == "zone":
        return _zone(rule.trigger, what, lookup)
    if kind == "homeassistant" and rule.trigger == "system" and what in ("start", "shutdown"):
        return Part({"platform": "homeassistant", "event": what})
    if kind == "calendar":
        return _calendar(rule.trigger, what, lookup)
    if kind == "event":
        return _event(rule.trigger, what, lookup)
    if kind == "notification" and rule.trigger == "persistent_notification":
        return Part({"platform": "persistent_notification", "update_type": ["added"]})
    raise Unwritable(REASONS.get(kind, "its trigger cannot be told from the data"))


REASONS = {
    "mqtt": "an MQTT message cannot be told from the data",
    "template": "a template cannot be told from the data",
    "webhook": "the id of a webhook is a secret that is not kept",
    "tag": "the id of a tag is a secret that is not kept",
    "device": "what a remote control sends cannot be told from the data",
    "conversation": "the sentence that is spoken cannot be told from the data",
}


def _entity(id_: str, lookup: HomeLookup) -> Entity:
    if "." not in id_ or id_.endswith(".*") or "@" in id_ or ":" in id_:
        raise Unwritable("its trigger is not an entity")
    return lookup.entity(id_)


def _state(rule: AutomationRule, word: str, lookup: HomeLookup) -> Part:
    entity = _entity(rule.trigger, lookup)
    config: dict[str, object] = {"platform": "state", "entity_id": rule.trigger}
    if word == "changed":
        # Attributes that change, and a device that comes back, are no change that people mean.
        return Part(config | {"not_from": ["unavailable"], "not_to": ["unavailable", "unknown"]})
    config["to"] = _value(entity, word, lookup)
    guesses = []
    if rule.trigger == rule.action_device:  # at once, it could never be on
        held = str(tables().values["held"])
        config["for"] = held
        guesses = [Guess("held", str(int(held[3:5])))]
    return Part(config, guesses)


def _value(entity: Entity, word: str, lookup: HomeLookup) -> str:
    """The state that a word stands for, if the entity can have it."""
    lists = tables()
    if word == "other":
        raise Unwritable("which state it is cannot be told from the data")
    for option in entity.options:
        if state_word(option) == f"state:{word}":
            return option
    if word in ("unavailable", "unknown"):
        if entity.domain in lists.always_there:
            raise Unwritable(f"a {entity.domain.replace('_', ' ')} is never {word}")
        return word
    if (entity.entity_id, f"state:{word}") in lookup.seen_states:  # the home's own automations wait for it
        return word
    possible = lists.states.get(entity.domain, frozenset())
    if entity.domain == "group":
        possible = _group_states(entity, lookup)
    if entity.domain == "climate" and (modes := entity.capabilities.get("hvac_modes")):
        possible &= frozenset(map(str, modes)) if isinstance(modes, (list, tuple)) else frozenset()
    needed = lists.state_features.get(f"{entity.domain}.{word}", ())
    if word not in possible or not supports(lookup.features(entity), needed):
        raise Unwritable(f"a {entity.domain.replace('_', ' ')} like this is never {word!r}, or it is not known to be")
    return word


def _group_states(group: Entity, lookup: HomeLookup) -> frozenset[str]:
    lists = tables()
    domains = {member.domain for member in lookup.members(group)}
    if not domains:
        return lists.groups["person"] if lookup.type_of(group.entity_id) == "Person" else lists.states["group"]
    found = {lists.groups.get(domain, lists.states["group"]) for domain in domains}
    return next(iter(found)) if len(found) == 1 else lists.states["group"]


def is_numeric(entity: Entity) -> bool:
    """Whether its state is a number."""
    if entity.domain == "sensor":
        measured = entity.unit or "state_class" in entity.capabilities or entity.device_class in tables().levels
        return bool(measured) and entity.device_class not in tables().text_classes
    return entity.domain in tables().numeric_domains


def _numeric(id_: str, what: str, lookup: HomeLookup) -> Part:
    entity = _entity(id_, lookup)
    lists = tables()
    by_attribute = lists.numeric_attributes.get(entity.domain)
    config: dict[str, object] = {"platform": "numeric_state", "entity_id": id_}
    if by_attribute:
        config["attribute"] = by_attribute["attribute"]
    elif not is_numeric(entity):
        raise Unwritable("the state of its trigger is not a number")
    class_ = by_attribute["class"] if by_attribute else _class(entity, lookup)
    low, high = _levels(class_, entity, lookup)
    unit = " °F" if class_.endswith("temperature") and _fahrenheit(entity, lookup) else f" {entity.unit}".rstrip()
    if what == "between":
        if not low < high:
            raise Unwritable("no plausible level is known")
        said = f"between {_short(low)} and {_short(high)}{unit}"
        config |= {"above": _plain_number(low), "below": _plain_number(high)}
    else:
        level = high if what == "above" else low
        said = f"{_short(level)}{unit}"
        config[what] = _plain_number(level)
    if entity.domain == "zone":  # nobody, or somebody: no choice
        return Part(config | ({what: 0} if what == "above" else {what: 1}))
    return Part(config, [Guess("level", said)])


def _class(entity: Entity, lookup: HomeLookup) -> str:
    lists = tables()
    by_type = lists.level_types.get(lookup.type_of(entity.entity_id), "")
    by_unit = lists.level_units.get(entity.unit, "")
    return next((each for each in (entity.device_class, by_unit, by_type) if each in lists.levels), "")


def _levels(class_: str, entity: Entity, lookup: HomeLookup) -> tuple[float, float]:
    """A low level and a high one."""
    lowest, highest = (number(entity.capabilities.get(key)) for key in ("min", "max"))
    found = tables().levels.get(class_)
    if found:
        suffix = "_f" if _fahrenheit(entity, lookup) and "above_f" in found else ""
        low, high = found[f"below{suffix}"], found[f"above{suffix}"]
        inside = (lowest is None or lowest < low) and (highest is None or high < highest)
        if inside:
            return low, high
    if lowest is not None and highest is not None and lowest < highest:
        return lowest + (highest - lowest) / 4, highest - (highest - lowest) / 4
    if entity.unit == "%":
        return 25, 75
    if entity.domain in ("counter", "zone", "proximity"):
        return (1, 5) if entity.domain != "proximity" else (1, 10)
    raise Unwritable("no plausible level is known")


def _fahrenheit(entity: Entity, lookup: HomeLookup) -> bool:
    return entity.unit == "°F" or (entity.unit != "°C" and lookup.fahrenheit)


def _plain_number(value: float) -> int | float:
    rounded = round(value, 2) or value
    return int(rounded) if rounded == int(rounded) else rounded


def _short(value: float) -> str:
    return f"{_plain_number(value):g}" if abs(value) < 1e5 else f"{_plain_number(value):,}"


def _time(rule: AutomationRule, what: str, lookup: HomeLookup) -> Part:
    values = tables().values
    if what == "pattern" and rule.trigger == "clock":
        minutes = str(values["pattern_minutes"])
        return Part({"platform": "time_pattern", "minutes": minutes}, [Guess("pattern", minutes.removeprefix("/"))])
    if what == "at" and rule.trigger == "clock":
        evening = rule.action in str(values["evening_actions"]).split()
        at = str(values["evening" if evening else "morning"])
        return Part({"platform": "time", "at": at}, [Guess("time", at[:5])])
    if what == "at":
        entity = _entity(rule.trigger, lookup)
        has_time = entity.domain == "input_datetime" or entity.device_class == "timestamp"
        if has_time and entity.domain in ("input_datetime", "sensor") and rule.trigger.split(".")[1] not in SERVICES:
            return Part({"platform": "time", "at": rule.trigger})
    raise Unwritable("its trigger tells no time")


def _zone(id_: str, what: str, lookup: HomeLookup) -> Part:
    entity = _entity(id_, lookup)
    if entity.domain not in PEOPLE or what not in ("enter", "leave"):
        raise Unwritable("only persons and trackers come and go")
    zones = [each for each in lookup.installation.entities if each.startswith("zone.") and each != "zone.home"]
    config: dict[str, object] = {"platform": "zone", "entity_id": id_, "zone": "zone.home", "event": what}
    return Part(config, [Guess("zone", "home")] if zones else [])


def _calendar(id_: str, what: str, lookup: HomeLookup) -> Part:
    if _entity(id_, lookup).domain != "calendar" or what not in ("start", "end"):
        raise Unwritable("its trigger is not a calendar")
    return Part({"platform": "calendar", "event": what, "entity_id": id_})


def _event(id_: str, what: str, lookup: HomeLookup) -> Part:
    lists = tables()
    if what in lists.timers and id_.startswith("timer."):
        _entity(id_, lookup)
        return Part({"platform": "event", "event_type": what, "event_data": {"entity_id": id_}})
    if what in lists.events and id_ == f"event:{what}":
        return Part({"platform": "event", "event_type": what})
    raise Unwritable("what its event carries cannot be told from the data")


def what_happened(rule: AutomationRule, lookup: HomeLookup) -> str:
    """A few words for a message, free of templates: which device, and what it does."""
    return without_templates(" ".join(printable(_happening(rule, lookup)).split()))


def _happening(rule: AutomationRule, lookup: HomeLookup) -> str:
    kind, _, what = rule.trigger_state.partition(":")
    name = lookup.name(rule.trigger)
    said = tables().said
    fixed = {"sun": what, "homeassistant": f"Home Assistant: {what}", "time": "It is time"}.get(kind)
    if fixed and kind != "time":
        return fixed.capitalize() if kind == "sun" else fixed
    if fixed:
        return fixed if rule.trigger == "clock" else f"It is time: {name}"
    if kind == "numeric":
        return f"{name}: {what} the level" if what != "between" else f"{name}: between the levels"
    if kind == "zone":
        return f"{name} {'arrived' if what == 'enter' else 'left'}"
    if kind == "calendar":
        return f"{name}: an event {'begins' if what == 'start' else 'is over'}"
    if kind == "event":
        return f"{name}: {what.rpartition('.')[2].replace('_', ' ')}"
    if kind == "notification":
        return "A new notification"
    return f"{name}: {said.get(f'{lookup.type_of(rule.trigger)}.{what}') or said.get(what) or what.replace('_', ' ')}"
