"""Shows on a real Home Assistant that written automations are valid, fire, and do what they name.

    HASS=/path/to/hass python -m tests.support.home_assistant_proof

prints the counts. A trigger is made to happen by setting the state of its entity, as a device would, or by firing its
event. The state of the action device is overwritten before: if it is the real one again, written under the context of
the automation, the service has reached the device.
"""

from __future__ import annotations

import datetime
import json
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from fedrule.homeassistant import InstalledHome, read_home, read_live
from fedrule.homeassistant.installation import Installation, items, mapping, text
from fedrule.homeassistant.translation.rules import AutomationRule
from fedrule.homeassistant.translation.vocabulary import vocabulary
from fedrule.homeassistant.writing.automation import AutomationWriter, WrittenAutomation
from fedrule.homeassistant.writing.install import OFF_AT_START, install
from tests.support.home_assistant import RunningServer, furnish, running_home_assistant

BEFORE = "before"  # a state that no entity has
WAIT = 3.0  # seconds for an automation to fire and act; it takes some hundredths
CLOCKS, SOON = 3, 8  # automations by the clock that are tried, and seconds until their time
OTHER_DEVICES = ("clock", "system", "persistent_notification", "event:automation_reloaded")
# Services that leave no trace in the state of their entity: that they are called must do.
WITHOUT_STATE = (
    "update_entity",
    "notify",
    "speak",
    "locate",
    "log",
    "write",
    "reload",
    "reload_all",
    "dismiss",
    "scan",
)


def trigger_states() -> list[str]:
    """Every trigger state of the vocabulary."""
    known = vocabulary()
    kinds = {
        "numeric": "above below between",
        "sun": "sunset sunrise other",
        "time": "at pattern",
        "zone": "enter leave",
        "homeassistant": "start shutdown",
        "calendar": "start end",
        "event": "other",
        "state": "changed other",
        "device": "other",
    }
    found = [f"{kind}:{word}" for kind, words in kinds.items() for word in words.split()]
    found += [f"state:{word}" for word in sorted(known.states)]
    found += [f"event:{word}" for word in sorted(known.events)]
    found += [f"device:{word}" for word in sorted(known.device_types)]
    return [*found, "mqtt", "template", "webhook", "tag", "conversation", "notification"]


def candidates(home: InstalledHome) -> Iterator[AutomationRule]:
    """Every trigger that can be written with some action, and every action with some trigger."""
    writer = AutomationWriter(home)
    ids = [device.id for device in home.devices if device.entity is None or device.entity.domain != "automation"]
    ids += [*OTHER_DEVICES, *(f"notify.{name}" for name in home.installation.services.get("notify", {}))]
    ids += [id_ for id_ in home.installation.entities if id_.startswith("notify.")]
    ids = list(dict.fromkeys([*ids, "light.*", "switch.*", "cover.*", "media_player.*", "sun.sun"]))
    actions = [(a, id_) for id_ in ids for a in sorted(vocabulary().actions) if _written(writer, *FIRST, a, id_)]
    starts = [(id_, state) for id_ in ids for state in trigger_states() if _written(writer, id_, state, *LAST)]
    one_each = list({f"{action} {device.partition('.')[0]}": (action, device) for action, device in actions}.values())
    kinds = list({f"{state} {trigger.partition('.')[0]}": (trigger, state) for trigger, state in starts}.values())
    for number in range(max(len(one_each), len(kinds))):  # so that a small sample has all of them
        yield AutomationRule(*kinds[number % len(kinds)], *one_each[number % len(one_each)])
    for (action, device), (trigger, state) in zip(cycle(actions), starts, strict=False):
        yield AutomationRule(trigger, state, action, device)
    for (trigger, state), (action, device) in zip(cycle(starts), actions, strict=False):
        yield AutomationRule(trigger, state, action, device)


FIRST = ("binary_sensor.movement_backyard", "state:on")
LAST = ("turn_on", "switch.ac")


def _written(writer: AutomationWriter, trigger: str, state: str, action: str, device: str) -> bool:
    rule = AutomationRule(trigger, state, action, device)
    return isinstance(writer.write(rule, text="x", why=""), WrittenAutomation)


def written_rules(home: InstalledHome) -> dict[AutomationRule, WrittenAutomation]:
    """The candidates that the writer takes."""
    writer = AutomationWriter(home)
    found = {}
    for rule in dict.fromkeys(candidates(home)):
        sentence = f"When *{rule.trigger}* is {rule.trigger_state}, {rule.action} *{rule.action_device}*"
        written = writer.write(rule, text=sentence, why="a test")
        if isinstance(written, WrittenAutomation):
            found[rule] = written
    return found


def shape(part: object) -> str:
    """A trigger or an action with the domain in place of each entity, and without messages: what a server validates."""

    def general(value: object, key: str = "") -> object:
        if isinstance(value, Mapping):
            return {name: general(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [general(each, key) for each in value]
        if key in ("message", "item", "device_id"):
            return "..."
        named = key in ("entity_id", "media_player_entity_id", "at") and "." in str(value)
        return f"{str(value).partition('.')[0]}.*" if named else value

    return json.dumps(general(part), ensure_ascii=False)


class Talk:
    """A WebSocket as the administrator; events that come between answers are kept."""

    def __init__(self, server: RunningServer) -> None:
        import websocket

        self.server = server
        self.events: list[Mapping[str, object]] = []
        self._number = 0
        self._connection = websocket.create_connection(server.address.replace("http", "ws") + "/api/websocket")
        self._connection.settimeout(30)
        self._connection.recv()
        self._connection.send(json.dumps({"type": "auth", "access_token": server.token}))
        self._connection.recv()

    def close(self) -> None:
        self._connection.close()

    def ask(self, kind: str, **fields: object) -> Mapping[str, object]:
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "type": kind, **fields}))
        while True:
            answer = json.loads(self._connection.recv())
            if answer["type"] == "event":
                self.events.append(answer["event"])
            elif answer.get("id") == self._number:
                return mapping(answer)

    def call(self, name: str, **data: object) -> Mapping[str, object]:
        domain, _, service = name.partition(".")
        return self.ask("call_service", domain=domain, service=service, service_data=data)

    def http(self, path: str, body: object = None) -> object:
        """REST, for what the WebSocket has not: setting a state, firing an event."""
        headers = {"Authorization": f"Bearer {self.server.token}", "Content-Type": "application/json"}
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.server.address}{path}", sent, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: object = json.load(answer)
        return found

    def state(self, entity_id: str) -> Mapping[str, object]:
        return mapping(self.http(f"/api/states/{entity_id}"))

    def set_state(self, entity_id: str, state: str, **attributes: object) -> None:
        kept = mapping(self.state(entity_id).get("attributes"))
        self.http(f"/api/states/{entity_id}", {"state": state, "attributes": {**kept, **attributes}})


def problems_of(talk: Talk, installation: Installation, automation: WrittenAutomation) -> list[str]:
    """What the server finds wrong with an automation, and services or fields that it does not have."""
    config = automation.config
    plural = "triggers" in config
    keys = ("triggers", "conditions", "actions") if plural else ("trigger", "condition", "action")
    answer = talk.ask("validate_config", **{key: config[key] for key in keys})
    result = mapping(answer.get("result"))
    found = [str(mapping(each).get("error")) for each in result.values() if mapping(each).get("valid") is not True]
    found += [] if len(result) == len(keys) else [f"not answered: {answer}"]
    for step in map(mapping, items(config[keys[2]])):
        name = text(step.get("service")) or text(step.get("action"))
        if not name:
            continue
        domain, _, service = name.partition(".")
        about = mapping(mapping(installation.services.get(domain)).get(service))
        if not about and service not in installation.services.get(domain, {}):
            found.append(f"there is no service {name}")
        fields = _fields(mapping(about.get("fields")))
        found += [f"{name} has no field {key}" for key in mapping(step.get("data")) if key not in fields]
    return found


def _fields(fields: Mapping[str, object]) -> set[str]:
    """With those in sections, which newer versions have."""
    return {*fields, *(key for about in fields.values() for key in mapping(mapping(about).get("fields")))}


@dataclass
class Proof:
    """Counts; `failures` are sentences."""

    version: str
    written: int = 0
    valid: int = 0
    installed: int = 0
    triggered: int = 0
    fired: int = 0
    called: int = 0
    seen: int = 0  # the action device was seen to change, where the state says what it is to the right state
    unseen: int = 0  # no state shows what the service did
    not_triggered: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def effects(self) -> int:
        """Automations that did what they name, as far as it can be seen."""
        return self.seen + self.unseen

    def table(self) -> str:
        """The counts, and below them what failed."""
        rows = [
            ("automations written (every trigger and every action)", self.written),
            ("valid by the server's validate_config, services and fields exist", self.valid),
            ("installed, switched off", self.installed),
            ("trigger made to happen after switching on", self.triggered),
            ("fired", self.fired),
            ("called their service without an error", self.called),
            ("of these: their device was seen to change", self.seen),
            ("of these: no state shows it (messages, speech, refreshes, events)", self.unseen),
        ]
        lines = [f"Home Assistant {self.version}", *(f"{count:6,}  {what}" for what, count in rows)]
        lines += [f"{count:6,}  of all written not tried: {why}" for why, count in self.not_triggered.most_common()]
        return "\n".join([*lines, *self.failures])


def prove(server: RunningServer, home: InstalledHome, *, sample: int) -> Proof:
    """Validate all, then install a sample of them in which every service occurs, and make their triggers happen."""
    proof = Proof(home.installation.version)
    talk = Talk(server)
    try:
        rules = written_rules(home)
        proof.written = len(rules)
        for rule, automation in rules.items():
            wrong = problems_of(talk, home.installation, automation)
            proof.valid += not wrong
            proof.failures += [f"invalid: {rule}: {each}" for each in wrong]
        chosen = [*_sampled(rules, sample)]
        proof.not_triggered.update(filter(None, map(_untriggered, rules)))
        to_try = {rule: rules[rule] for rule in chosen if not _untriggered(rule)}
        warned = {automation.id for automation in to_try.values() if automation.warnings}
        for done in install(server.address, server.token, list(to_try.values())):
            expected = OFF_AT_START if done.id in warned else ""
            well = done.result == "installed" and done.message == expected
            proof.installed += well
            proof.failures += [] if well else [f"not installed: {done}"]
        talk.close()
        talk = Talk(server)  # a connection that nobody reads from for so long is dropped
        for kind in ("call_service", "state_changed", "automation_triggered"):
            talk.ask("subscribe_events", event_type=kind)
        entity_of = _automation_entities(talk)
        for rule, automation in to_try.items():
            _try(talk, rule, automation, entity_of[automation.id], proof)
        for rule in [rule for rule in rules if rule[:2] == ("clock", "time:at")][:CLOCKS]:
            soon = _soon(rules[rule])
            (done,) = install(server.address, server.token, [soon])
            proof.installed += done.result == "installed"
            _try(talk, rule, soon, _automation_entities(talk)[soon.id], proof)
    finally:
        talk.close()
    return proof


def _soon(automation: WrittenAutomation) -> WrittenAutomation:
    """The automation with the guessed time changed, as its owner would, to one that comes in some seconds."""
    key = "triggers" if "triggers" in automation.config else "trigger"
    at = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=SOON)).strftime("%H:%M:%S")
    (trigger,) = map(mapping, items(automation.config[key]))
    return WrittenAutomation({**automation.config, key: [{**trigger, "at": at}]})


def _sampled(rules: Mapping[AutomationRule, WrittenAutomation], sample: int) -> Iterator[AutomationRule]:
    """First one for each service and each kind of trigger of a domain, then others, evenly."""
    seen: set[tuple[str, str]] = set()
    first = []
    for rule in rules:
        parts = {
            ("action", f"{rule.action} {rule.action_device.partition('.')[0]}"),
            ("trigger", f"{rule.trigger_state} {rule.trigger.partition('.')[0]}"),
        }
        if not parts <= seen and not _untriggered(rule):
            seen |= parts
            first.append(rule)
    rest = [rule for rule in rules if rule not in set(first)]
    step = max(1, len(rest) // max(1, sample - len(first)))
    yield from [*first, *rest[::step]][:sample]


def _untriggered(rule: AutomationRule) -> str:
    """Why a rule is not tried."""
    kind = rule.trigger_state.partition(":")[0]
    if kind in ("sun", "time", "calendar", "homeassistant"):
        return f"{kind}: the server's clock or its start"
    if rule.trigger == rule.action_device and kind == "state":
        return "it waits for minutes"
    if rule.action in ("restart", "stop", "reload_all") or rule.action_device.startswith("automation."):
        return "it would end this test"
    return ""


def _automation_entities(talk: Talk) -> dict[str, str]:
    states = [mapping(each) for each in items(talk.http("/api/states"))]
    automations = [state for state in states if text(state.get("entity_id")).startswith("automation.")]
    return {str(mapping(s.get("attributes")).get("id")): text(s.get("entity_id")) for s in automations}


def _try(talk: Talk, rule: AutomationRule, automation: WrittenAutomation, entity_id: str, proof: Proof) -> None:
    """Switch one automation on, make its trigger happen, look what it does, and switch it off."""
    assert talk.state(entity_id)["state"] == "off", "an installed automation must be off"
    prepare(talk, rule, automation)
    talk.call("automation.turn_on", entity_id=entity_id)
    log = talk.server.folder / "server.log"
    length = log.stat().st_size
    devices = _devices(talk, rule.action_device)
    for each in devices:
        talk.set_state(each, BEFORE)
    talk.events.clear()
    make_happen(talk, rule, automation)
    proof.triggered += 1
    context = _until(talk, lambda: _fired(talk, entity_id), SOON if rule.trigger == "clock" else 0) or ""
    proof.fired += bool(context)
    called = bool(context) and _until(talk, lambda: _called(talk, context, automation))
    silent = rule.action in WITHOUT_STATE or not devices
    changed = called and not silent and _until(talk, lambda: _changed(talk, context, devices, rule.action))
    errors = log.read_bytes()[length:].decode(errors="replace")
    complained = entity_id in errors
    proof.called += bool(called) and not complained
    proof.seen += bool(changed) and not complained
    proof.unseen += bool(called) and not complained and silent
    if complained or not (called and (silent or changed)):
        what = "did not fire" if not context else "did not call" if not called else "changed nothing"
        proof.failures.append(f"{what}: {rule} {errors[-300:] if complained else ''}")
    talk.call("automation.turn_off", entity_id=entity_id)


def _devices(talk: Talk, action_device: str) -> list[str]:
    """The entities whose state shows the effect; of a group and of all entities, those that are meant."""
    if action_device.endswith(".*"):
        domain = action_device.removesuffix("*")
        states = (text(mapping(each).get("entity_id")) for each in items(talk.http("/api/states")))
        return [each for each in states if each.startswith(domain)]
    if "." not in action_device or action_device.partition(".")[0] not in vocabulary().entity_domains:
        return []
    members = mapping(talk.state(action_device).get("attributes")).get("entity_id")
    return [action_device, *map(str, items(members))]


def _until(talk: Talk, found, more: float = 0):  # type: ignore[no-untyped-def]
    until = time.monotonic() + WAIT + more
    while time.monotonic() < until:
        talk.ask("ping")
        if result := found():
            return result
        time.sleep(0.02)
    return None


def _of(talk: Talk, kind: str) -> Iterator[tuple[Mapping[str, object], Mapping[str, object]]]:
    for event in talk.events:
        if event.get("event_type") == kind:
            yield mapping(event.get("data")), mapping(event.get("context"))


def _fired(talk: Talk, entity_id: str) -> str:
    about = _of(talk, "automation_triggered")
    return next((text(context.get("id")) for data, context in about if data.get("entity_id") == entity_id), "")


def _called(talk: Talk, context_id: str, automation: WrittenAutomation) -> bool:
    config = automation.config
    (step,) = map(mapping, items(config.get("actions", config.get("action"))))
    name = text(step.get("service")) or text(step.get("action"))
    if not name:
        return True  # an event, or a device's own action
    for data, context in _of(talk, "call_service"):
        if context.get("id") == context_id and f"{data['domain']}.{data['service']}" == name:
            return True
    return False


# The states after an action, of the domains whose state says it.
AFTER = {
    "turn_on": ("on", "fan group humidifier input_boolean light siren switch"),
    "turn_off": ("off", "fan group humidifier input_boolean light siren switch climate media_player"),
    "lock": ("locked locking", "lock"),
    "unlock": ("unlocked unlocking", "lock"),
    "open": ("open opening", "cover valve"),
    "close": ("closed closing", "cover valve"),
    "set_brightness": ("on", "group light"),
    "set_color": ("on", "group light"),
    "pause": ("paused", "media_player timer"),
    "play": ("playing", "media_player"),
    "start": ("cleaning active", "vacuum timer"),
    "return_to_base": ("returning docked", "vacuum"),
    "set_hvac_mode": ("heat heat_cool auto eco", "climate water_heater"),
}


def _changed(talk: Talk, context_id: str, devices: Sequence[str], action: str) -> bool:
    """Whether one of the devices has got its own state back by this automation, and the right one."""
    states, domains = (words.split() for words in AFTER.get(action, ("", "")))
    for data, context in _of(talk, "state_changed"):
        new = mapping(data.get("new_state"))
        ours = context_id in (context.get("id"), context.get("parent_id"))
        listed = text(data.get("entity_id")).partition(".")[0] in domains
        right = new.get("state") in states if listed else new.get("state") != BEFORE
        if ours and data.get("entity_id") in devices and right:
            return True
    return False


def _trigger(automation: WrittenAutomation) -> tuple[str, Mapping[str, object]]:
    config = automation.config
    (trigger,) = map(mapping, items(config.get("triggers", config.get("trigger"))))
    return text(trigger.get("platform")) or text(trigger.get("trigger")), trigger


OUTSIDE, AT_HOME = {"latitude": 10.0, "longitude": 5.0}, {"latitude": 52.0, "longitude": 5.0}


# What must run before an action can end or interrupt it.
RUNNING = {"timer": ("timer.start", "pause cancel finish"), "vacuum": ("vacuum.start", "pause stop")}


def prepare(talk: Talk, rule: AutomationRule, automation: WrittenAutomation) -> None:
    """The state from which the trigger can happen, and the action have an effect."""
    start, actions = RUNNING.get(rule.action_device.partition(".")[0], ("", ""))
    if rule.action in actions.split():
        talk.call(start, entity_id=rule.action_device)
    kind, trigger = _trigger(automation)
    if kind == "state":
        talk.set_state(rule.trigger, BEFORE)
    elif kind == "numeric_state":
        _set_number(talk, rule.trigger, trigger, inside=False)
    elif kind == "zone":
        place = OUTSIDE if trigger.get("event") == "enter" else AT_HOME
        talk.set_state(rule.trigger, BEFORE, gps_accuracy=1, **place)


def make_happen(talk: Talk, rule: AutomationRule, automation: WrittenAutomation) -> None:
    """What a device would do."""
    kind, trigger = _trigger(automation)
    if kind == "state":
        talk.set_state(rule.trigger, text(trigger.get("to")) or "after")
    elif kind == "numeric_state":
        _set_number(talk, rule.trigger, trigger, inside=True)
    elif kind == "zone":
        place = AT_HOME if trigger.get("event") == "enter" else OUTSIDE
        talk.set_state(rule.trigger, BEFORE, gps_accuracy=1, **place)
    elif kind == "event":
        talk.http(f"/api/events/{trigger['event_type']}", mapping(trigger.get("event_data")) or {})
    elif kind == "persistent_notification":
        talk.call("persistent_notification.create", message="a test")
    elif kind != "time":
        raise AssertionError(f"nothing makes {kind} happen")


def _set_number(talk: Talk, entity_id: str, trigger: Mapping[str, object], *, inside: bool) -> None:
    """Between the levels of a trigger, or not."""
    low, high = (float(str(trigger[key])) if key in trigger else None for key in ("above", "below"))
    if low is not None:
        value = low - 1 if not inside else (low + high) / 2 if high is not None else low + 1
    else:
        value = (high or 0) + (-1 if inside else 1)
    attribute = text(trigger.get("attribute"))
    talk.set_state(entity_id, BEFORE if attribute else str(value), **({attribute: value} if attribute else {}))


def prove_demo_home(folder: Path, *, sample: int) -> Proof:
    """A server of its own for the proof."""
    with running_home_assistant(folder) as server:
        furnish(server)
        home = read_home(read_live(server.address, server.token))
        return prove(server, home, sample=sample)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        sys.stdout.write(prove_demo_home(Path(place), sample=190).table() + "\n")
