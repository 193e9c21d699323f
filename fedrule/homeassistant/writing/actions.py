"""The action of a rule, as Home Assistant takes it: the reverse of `translation.actions`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fedrule.homeassistant.installation import Entity, items, mapping
from fedrule.homeassistant.readers.registries import is_entity_id
from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.translation.vocabulary import vocabulary
from fedrule.homeassistant.writing.tables import (
    Guess,
    Known,
    Part,
    Unwritable,
    has_template,
    name_has,
    number,
    services_for,
    supports,
    tables,
)
from fedrule.homeassistant.writing.triggers import what_happened

Data = tuple[dict[str, object], list[Guess]]


class Setting(NamedTuple):
    """What the data of a call depends on."""

    rule: AutomationRule
    entity: Entity
    known: Known


COLORS = frozenset(("hs", "xy", "rgb", "rgbw", "rgbww"))
DIMMABLE = COLORS | {"brightness", "color_temp", "white"}
LIGHT_DATA = ("set_brightness", "set_color", "set_effect")
ANY_ENTITY = ("turn_on", "turn_off", "toggle")
EFFECT, TARGET_TEMPERATURE, PLAY_MEDIA = 4, 1, 512  # features: what a value depends on
NOT_ASKED = {
    "play_media": "what is to be played cannot be told from the data",
    "send_command": "which command is to be sent cannot be told from the data",
    "snapshot": "where the picture is to be kept cannot be told from the data",
    "record": "where the film is to be kept cannot be told from the data",
    "publish": "what is to be published cannot be told from the data",
    "set_options": "which options are meant cannot be told from the data",
    "other": "which service is called cannot be told from the data",
}


def write_action(rule: AutomationRule, known: Known) -> Part:
    """The action; `Unwritable` says why there is none."""
    id_, action = rule.action_device, rule.action
    if action == "fire_event" and id_.startswith("event:"):
        return _fire(id_.removeprefix("event:"))
    if action == "notify":
        return _notify(rule, known)
    if action == "dismiss" and id_ == "persistent_notification":
        return _call(known, "persistent_notification.dismiss_all")
    if action == "run" and id_.partition(".")[0] in vocabulary().runners:
        return _run(id_, known)
    if id_ == "system":
        return _system(rule, known)
    if action == "reload" and id_ in vocabulary().entity_domains and f"{id_}.reload" in _reloads(known):
        return _call(known, f"{id_}.reload")
    if action in NOT_ASKED:
        raise Unwritable(NOT_ASKED[action])
    if id_.endswith(".*"):
        return _all(rule, known)
    if not is_entity_id(id_):
        raise Unwritable("what it acts on is not an entity")
    part = _on_entity(rule, known.entity(id_), known)
    part.warnings += _warnings(rule, known)
    return part


def _call(known: Known, name: str, data: Mapping[str, object] | None = None, *, entity_id: object = None) -> Part:
    domain, _, service = name.partition(".")
    if not known.has_service(domain, service):
        raise Unwritable(f"this home has no service {name}")
    config: dict[str, object] = {"service": name}
    if entity_id is not None:
        config["target"] = {"entity_id": entity_id}
    if data:
        config["data"] = dict(data)
    return Part(config)


def _fire(event: str) -> Part:
    if not event or has_template(event) or len(event) > 64 or not event.isprintable():
        raise Unwritable("which event is fired cannot be told from the data")
    return Part({"event": event})


def _run(id_: str, known: Known) -> Part:
    """A service that is a device: shell_command.NAME and the like, if it can be called without more."""
    domain, _, service = id_.partition(".")
    if not is_entity_id(id_) or (not known.installation.live and id_ not in known.devices):
        raise Unwritable(f"this home has no service {id_}")
    fields = mapping(mapping(mapping(known.installation.services.get(domain)).get(service)).get("fields"))
    if any(mapping(about).get("required") is True for about in fields.values()):
        raise Unwritable(f"what a {domain.replace('_', ' ')} is called with cannot be told from the data")
    return _call(known, id_)


def _reloads(known: Known) -> set[str]:
    return {f"{domain}.reload" for domain, services in known.installation.services.items() if "reload" in services}


def _notify(rule: AutomationRule, known: Known) -> Part:
    """A message that says what happened, to a target that there is."""
    id_ = rule.action_device
    data: dict[str, object] = {"message": what_happened(rule, known)}
    domain, _, service = id_.partition(".")
    if id_ == "persistent_notification":
        return _call(known, "persistent_notification.create", data)
    if id_ == "telegram_bot" and id_ in known.devices:
        return _call(known, "telegram_bot.send_message", data)
    if id_.startswith("notify@device:"):
        device = id_.removeprefix("notify@device:")
        if device not in known.installation.devices or known.installation.devices[device].disabled:
            raise Unwritable("the device to be notified is not known")
        return Part({"device_id": device, "domain": "mobile_app", "type": "notify", **data})
    if domain != "notify" or not is_entity_id(id_) or service in ("send_message", "chosen"):
        raise Unwritable("whom to notify cannot be told from the data")
    if id_ in known.installation.entities:
        known.entity(id_)  # not disabled
        return _call(known, "notify.send_message", data, entity_id=id_)
    if not known.installation.services and id_ not in known.devices and service != "persistent_notification":
        raise Unwritable(f"this home has no service {id_}")
    return _call(known, id_, data)


def _system(rule: AutomationRule, known: Known) -> Part:
    name = tables().system_services.get(rule.action)
    if name is None:
        raise Unwritable("what it does to Home Assistant itself cannot be told from the data")
    if rule.trigger == "system" and rule.action in ("restart", "stop"):
        raise Unwritable("the server would never be up")
    message = what_happened(rule, known)
    if rule.action == "write":
        return _call(known, name, {"message": message, "level": "info"})
    if rule.action == "log":
        return _call(known, name, {"name": "Automation", "message": message})
    if rule.action == "set_theme":
        part = _call(known, name, {"name": "default"})
        part.guesses.append(Guess("theme", "default"))
        return part
    return _call(known, name)


def _all(rule: AutomationRule, known: Known) -> Part:
    """All entities of a domain, if one of them at least can do it."""
    domain = rule.action_device.removesuffix(".*")
    entities = [e for e in known.installation.entities.values() if e.domain == domain and not e.disabled]
    able = [entity for entity in entities if _can(rule.action, entity, known)]
    if domain == "group" or rule.action in ("update_entity", "speak") or not able:
        raise Unwritable(f"no {domain.replace('_', ' ')} of this home can do it")
    part = _on_entity(rule, able[0], known)
    part.config["target"] = {"entity_id": "all"}
    part.warnings += _warnings(rule, known)
    return part


def _can(action: str, entity: Entity, known: Known) -> bool:
    rule = AutomationRule("", "", action, entity.entity_id)
    try:
        _on_entity(rule, entity, known)
    except Unwritable:
        return False
    return True


def _on_entity(rule: AutomationRule, entity: Entity, known: Known) -> Part:
    """A service on one entity, with its data."""
    id_, action, domain = entity.entity_id, rule.action, entity.domain
    if action == "update_entity":
        return _call(known, "homeassistant.update_entity", entity_id=id_)
    if domain == "group":
        return _on_group(rule, entity, known)
    if action == "speak" and domain == "media_player":
        return _speak(rule, entity, known)
    if domain == "light" and action in LIGHT_DATA:
        data, guesses = _light(rule, entity, known)
        part = _call(known, "light.turn_on", data, entity_id=id_)
        part.guesses += guesses
        return part
    if domain in ("text", "input_text") and action == "set_value":
        raise Unwritable("which text is meant cannot be told from the data")
    found = services_for(domain, action)
    if not found:
        raise Unwritable(f"a {domain.replace('_', ' ')} has no service for {action.replace('_', ' ')}")
    able = [service for service in found if known.can(entity, service)]
    if not able:
        raise Unwritable(f"this {domain.replace('_', ' ')} does not support {action.replace('_', ' ')}")
    if domain == "alarm_control_panel":
        _refuse_code(rule, entity)
    name = f"{domain}.{able[0]}"
    data, guesses = DATA[name](Setting(rule, entity, known)) if name in DATA else ({}, [])
    part = _call(known, name, data, entity_id=id_)
    part.guesses += guesses
    return part


def _on_group(rule: AutomationRule, group: Entity, known: Known) -> Part:
    """A group: the service of its members' domain if all have one, else those of any entity."""
    members = known.members(group)
    domains = {member.domain for member in members}
    if len(domains) == 1 and rule.action != "speak":
        for member in members:  # each must be able to
            part = _on_entity(rule._replace(action_device=member.entity_id), member, known)
        part.config["target"] = {"entity_id": group.entity_id}
        return part
    switched = vocabulary().switched_domains | {"script", "scene"}
    if rule.action not in ANY_ENTITY or (domains and not domains & switched):
        raise Unwritable(f"a group of these has no service for {rule.action.replace('_', ' ')}")
    return _call(known, f"homeassistant.{rule.action}", entity_id=group.entity_id)


def _refuse_code(rule: AutomationRule, panel: Entity) -> None:
    needed = rule.action == "disarm" or panel.able.get("code_arm_required") is not False
    if panel.able.get("code_format") and needed and rule.action != "alarm_trigger":
        raise Unwritable("the alarm asks for a code that only its owner knows")


def _speak(rule: AutomationRule, player: Entity, known: Known) -> Part:
    if not supports(known.features(player), (PLAY_MEDIA,)):
        raise Unwritable("this media player cannot speak")
    data: dict[str, object] = {"message": what_happened(rule, known)}
    voices = sorted(id_ for id_, e in known.installation.entities.items() if id_.startswith("tts.") and not e.disabled)
    if voices:
        whole = {"media_player_entity_id": player.entity_id, **data}
        return _call(known, "tts.speak", whole, entity_id=voices[0])
    says = sorted(each for each in known.installation.services.get("tts", {}) if each.endswith("_say"))
    if says:
        return _call(known, f"tts.{says[0]}", {"entity_id": player.entity_id, **data})
    raise Unwritable("this home has no text-to-speech")


# What services are called with.


def _light(rule: AutomationRule, light: Entity, known: Known) -> Data:
    values = tables().values
    modes = frozenset(light.color_modes)
    if rule.action == "set_brightness":
        if modes and not modes & DIMMABLE:
            raise Unwritable("this light cannot be dimmed")
        percent = values["brightness_pct"]
        return {"brightness_pct": percent}, [Guess("brightness", str(percent))]
    if rule.action == "set_effect":
        if not known.features(light) & EFFECT:
            raise Unwritable("this light has no effects")
        effect = _chosen(_listed(light, "effect_list", without=("none", "off", "None")), rule)
        return {"effect": effect}, [Guess("effect", effect)]
    danger = known.type_of(rule.trigger) in str(values["danger_types"]).split()
    if modes & COLORS and (danger or "color_temp" not in modes):
        rgb = values["red" if danger else "rgb"]
        return {"rgb_color": rgb}, [Guess("color", "red" if danger else "a warm orange")]
    if "color_temp" in modes:
        kelvin = values["kelvin"]
        fields = mapping(mapping(mapping(known.installation.services.get("light")).get("turn_on")).get("fields"))
        older = "kelvin" in fields and "color_temp_kelvin" not in fields  # servers of 2024 tell the older name
        return {"kelvin" if older else "color_temp_kelvin": kelvin}, [Guess("color", f"warm white ({kelvin} K)")]
    raise Unwritable("this light has no colours")


def _listed(entity: Entity, key: str, *, without: tuple[str, ...] = ()) -> list[str]:
    value = entity.options if key == "options" else entity.able.get(key)
    return [str(each) for each in items(value) if str(each) not in without] if value else []


def _chosen(options: list[str], rule: AutomationRule) -> str:
    """The most plausible option for what the trigger says."""
    lists = tables().choices
    usable = [option for option in options if option.strip() and not has_template(option)]
    if not usable:
        raise Unwritable("its options are not known")
    by_word = {option.lower(): option for option in reversed(usable)}
    when = next((kind for kind in ("away", "night") if rule.trigger_state in lists[f"{kind}_states"]), "otherwise")
    return next((by_word[word] for word in lists[when] if word in by_word), usable[0])


def _option(key: str, field: str, kind: str = "option") -> Callable[[Setting], Data]:
    def data(on: Setting) -> Data:
        open_window = key == "hvac_modes" and on.known.type_of(on.rule.trigger) == "ContactSensor"
        opened = open_window and on.rule.trigger_state == "state:on" and "off" in _listed(on.entity, key)
        option = "off" if opened else _chosen(_listed(on.entity, key), on.rule)
        return {field: option}, [Guess(kind, option)]

    return data


def _fixed(field: str, value: object, kind: str = "") -> Callable[[Setting], Data]:
    """A value of [values] that is a guess, or without a kind one that is none."""

    def data(_: Setting) -> Data:
        if not kind:
            return {field: value}, []
        chosen = tables().values[str(value)]
        shown = f"{float(str(chosen)) * 100:.0f}" if kind == "volume" else f"{chosen} %" if kind == "speed" else chosen
        return {field: chosen}, [Guess(kind, str(shown))]

    return data


def _within(value: float, entity: Entity, low_key: str, high_key: str) -> int | float:
    low, high = (number(entity.able.get(key)) for key in (low_key, high_key))
    found = max(value, low) if low is not None else value
    found = min(found, high) if high is not None else found
    return int(found) if found == int(found) else found


def _temperature(on: Setting) -> Data:
    _, entity, known = on
    values = tables().values
    top = number(entity.able.get("max_temp"))
    fahrenheit = top > 60 if top is not None and entity.domain == "climate" else known.fahrenheit
    unit, sign = ("f", "°F") if fahrenheit else ("c", "°C")

    def inside(value: object) -> int | float:
        return _within(float(str(value)), entity, "min_temp", "max_temp")

    if entity.domain == "climate" and not known.features(entity) & TARGET_TEMPERATURE:
        low, high = map(inside, items(mapping(values["temperature_range"])[unit]))
        return {"target_temp_low": low, "target_temp_high": high}, [Guess("temperature", f"{low} to {high} {sign}")]
    key = "temperature" if entity.domain == "climate" else "water_temperature"
    degrees = inside(mapping(values[key])[unit])
    return {"temperature": degrees}, [Guess("temperature", f"{degrees} {sign}")]


def _humidity(on: Setting) -> Data:
    percent = _within(float(str(tables().values["humidity"])), on.entity, "min_humidity", "max_humidity")
    return {"humidity": percent}, [Guess("humidity", str(percent))]


def _number(on: Setting) -> Data:
    """The middle of its range, on a step; 0 for a counter."""
    entity = on.entity
    if entity.domain == "counter":
        return {"value": 0}, [Guess("number", "0")]
    low, high = (number(entity.able.get(key)) for key in ("min", "max"))
    if low is None or high is None or low > high:
        raise Unwritable("its range is not known")
    step = abs(number(entity.able.get("step")) or 1.0)
    value: float = low + step * round((high - low) / step / 2)
    if entity.device_class == "temperature" or entity.unit in ("°C", "°F"):
        usual = mapping(tables().values["temperature"])["f" if entity.unit == "°F" else "c"]
        value = min(max(float(str(usual)), low), high)
    value = round(value, 6)
    whole = int(value) if value == int(value) else value
    return {"value": whole}, [Guess("number", f"{whole} {entity.unit}".strip())]


def _datetime(on: Setting) -> Data:
    entity = on.entity
    if entity.able.get("has_time") is not True or entity.able.get("has_date") is True:
        raise Unwritable("which date it is set to cannot be told from the data")
    time = str(tables().values["morning"])
    return {"time": time}, [Guess("time", time[:5])]


def _item(on: Setting) -> Data:
    return {"item": what_happened(on.rule, on.known)}, []


def _announcement(on: Setting) -> Data:
    return {"message": what_happened(on.rule, on.known)}, []


DATA: Mapping[str, Callable[[Setting], Data]] = {
    "assist_satellite.announce": _announcement,
    "climate.set_fan_mode": _option("fan_modes", "fan_mode"),
    "climate.set_humidity": _humidity,
    "climate.set_hvac_mode": _option("hvac_modes", "hvac_mode"),
    "climate.set_preset_mode": _option("preset_modes", "preset_mode"),
    "climate.set_swing_mode": _option("swing_modes", "swing_mode"),
    "climate.set_temperature": _temperature,
    "counter.set_value": _number,
    "cover.set_cover_position": _fixed("position", "position", "position"),
    "cover.set_cover_tilt_position": _fixed("tilt_position", "position", "position"),
    "fan.set_direction": lambda _: ({"direction": "forward"}, [Guess("direction", "forward")]),
    "fan.set_percentage": _fixed("percentage", "percentage", "speed"),
    "fan.set_preset_mode": _option("preset_modes", "preset_mode"),
    "humidifier.set_humidity": _humidity,
    "humidifier.set_mode": _option("available_modes", "mode"),
    "input_datetime.set_datetime": _datetime,
    "input_number.set_value": _number,
    "input_select.select_option": _option("options", "option"),
    "media_player.select_sound_mode": _option("sound_mode_list", "sound_mode"),
    "media_player.select_source": _option("source_list", "source"),
    "media_player.shuffle_set": _fixed("shuffle", True),
    "media_player.volume_mute": _fixed("is_volume_muted", True),
    "media_player.volume_set": _fixed("volume_level", "volume", "volume"),
    "number.set_value": _number,
    "select.select_option": _option("options", "option"),
    "todo.add_item": _item,
    "vacuum.set_fan_speed": _option("fan_speed_list", "fan_speed", "speed"),
    "valve.set_valve_position": _fixed("position", "position", "position"),
    "water_heater.set_operation_mode": _option("operation_list", "operation_mode"),
    "water_heater.set_temperature": _temperature,
}


def _warnings(rule: AutomationRule, known: Known) -> list[str]:
    """What to look at before the automation is switched on; one sentence."""
    id_ = rule.action_device
    domain = id_.partition(".")[0]
    entity = known.installation.entities.get(id_) or Entity(id_)
    lists = tables()
    name = f"all {domain.replace('_', ' ')} entities" if id_.endswith(".*") else known.name(id_)
    words = f"{name} {id_}"
    if domain == "group":
        members = {member.domain for member in known.members(entity)}
        domain = next((each for each in sorted(members) if each in lists.warnings), domain)
    if domain == "cover" and (
        entity.device_class in ("garage", "gate", "door") or name_has(words, lists.warning_words["garage"])
    ):
        return [lists.warnings["garage"].format(name)]
    hot = domain in ("switch", "group", "fan", "remote") and rule.action in ("turn_on", "toggle")
    if hot and name_has(words, lists.warning_words["hot"]):
        return [lists.warnings["hot"].format(name)]
    found = lists.warnings.get(f"{domain}.{rule.action}") or lists.warnings.get(domain)
    harmless = rule.action in ("update_entity", "stop") or (domain == "siren" and rule.action == "turn_off")
    return [found.format(name)] if found and not harmless else []
