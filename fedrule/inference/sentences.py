"""A rule as a sentence, device names between asterisks: "When *Front door* opens, turn on *Hall light*".

Common triggers and actions of smart homes and of app recipes have phrases, families of them patterns; any other is
quoted, so that a sentence is right whatever the data contain: When *Tank* reports "flush", let *Gate* do "yaw".
A trigger's phrase follows "When", unless it begins with a capital letter; {} is the device. Words are compared in
lower case with spaces for - and _, so that "Turned On", "turned_on" and "turned-on" are equal. In a pattern, [a x] is
"x" with its article if it needs one, and [x] is "x" unchanged.
"""

from __future__ import annotations

import re
from functools import lru_cache

STATES = "away disarmed docked finished idle locked offline paused triggered unavailable unlocked"

TRIGGERS = {
    **dict.fromkeys(("open", "opened", "state:open", "device:opened"), "{} opens"),
    **dict.fromkeys(("close", "closed", "state:closed", "device:not opened"), "{} closes"),
    **dict.fromkeys(("on", "turned on", "turn on", "state:on"), "{} turns on"),
    **dict.fromkeys(("off", "turned off", "turn off", "state:off"), "{} turns off"),
    **dict.fromkeys(("changed", "state:changed", "device:changed states"), "{} changes"),
    **dict.fromkeys(("condition met", "template", "state:other"), "{} meets a condition"),
    **dict.fromkeys(("sunrise", "sun:sunrise"), "At sunrise ({})"),
    **dict.fromkeys(("sunset", "sun:sunset"), "At sunset ({})"),
    **dict.fromkeys(("time reached", "time:at"), "At a set time ({})"),
    "time:pattern": "At regular times ({})",
    **dict.fromkeys(("doorbell pressed", "state:ringing"), "{} rings"),
    **dict.fromkeys(("press", "click", "event:click", "device:button", "device:single push"), "{} is pressed"),
    **dict.fromkeys(("long press", "device:long push"), "{} is pressed for long"),
    "mode changed": "{} changes its mode",
    "battery low": "{} has a low battery",
    **{f"state:{word}": f"{{}} is {word}" for word in STATES.split()},
    "state:home": "{} comes home",
    "state:not home": "{} leaves home",
    "zone:enter": "{} enters a zone",
    "zone:leave": "{} leaves a zone",
    "numeric:above": "{} reports a value above a level",
    "numeric:below": "{} reports a value below a level",
    "numeric:between": "{} reports a value between two levels",
    "homeassistant:start": "{} starts up",
    "homeassistant:shutdown": "{} shuts down",
    "mqtt": "{} receives an MQTT message",
    "webhook": "{} receives a web request",
    "tag": "{} reads a tag",
    "conversation": "{} hears a sentence",
    "notification": "{} receives a notification",
    "event:timer.finished": "{} runs out",
    "event:timer.started": "{} starts",
    "event:timer.cancelled": "{} is cancelled",
    "event:other": "{} sends an event",
    "device:other": "{} reports something",
    "device:action": "{} reports an action",
    "device:occupied": "{} detects somebody",
    "device:not occupied": "{} no longer detects anybody",
    "device:moist": "{} detects moisture",
    "device:plugged in": "{} is plugged in",
    "device:not connected": "{} loses its connection",
    "calendar:start": "{} comes to the start of an event",
    "calendar:end": "{} comes to the end of an event",
    "event starts": "{} comes to the start of an event",
    "say a phrase": "you say a phrase to {}",
    "say a specific phrase": "you say a specific phrase to {}",
    "tomorrows forecast calls for": "{} forecasts certain weather for tomorrow",
    "current condition changes to": "{} reports that the weather changes",
    "every day at": "Every day at a set time ({})",
    "every hour at": "Every hour at a set minute ({})",
}

TRIGGER_PATTERNS = (
    (r"state:(?P<x>.+)", '{} changes to "[x]"'),
    (r"event:(?P<x>.+)", '{} sends the event "[x]"'),
    (r"being (?P<x>.+)", "{} is [x]"),
    (r"left (?P<x>.+)", "{} is left [x]"),
    (r"(?P<x>locked|unlocked|armed|disarmed|docked)", "{} is [x]"),
    (r"(?:nest )?set to (?P<x>.+)", "{} is set to [x]"),
    (r"button (?P<x>pressed|held|released|pressed twice)", "{}'s button is [x]"),
    (r"(?:remote )?button (?P<x>short|double|long) press", "{} gets a [x] press"),
    (r"(?P<x>.+?)(?: has been| is)? detected|(?P<y>motion|smoke|sound|moisture|gas)", "{} detects [a x]"),
    (r"(?:no|not) (?P<x>motion|smoke|sound|gas)|(?P<y>.+) cleared", "{} no longer detects [a x]"),
    (r"(?P<x>.+?)(?: level)?(?: drops)? below(?: threshold)?", "{} reports [a x] below a level"),
    (r"(?P<x>.+?)(?: level)?(?: rises)? above(?: threshold)?", "{} reports [a x] above a level"),
    (r"(?P<x>\w+ing) (?:finished|stopped|ended)", "{} stops [x]"),
    (r"(?P<x>\w+ing) started", "{} starts [x]"),
    (r"(?:\w+ )?stuck", "{} gets stuck"),
    (r"every (?P<x>.+) at", "Every [x] at a set time ({})"),
    (r"every (?P<x>.+) on(?: the)?", "Every [x] on a set day ({})"),
    (r"(?:any )?(?P<x>new .+)", "{} has a [x]"),
    (r"(?P<x>(?:you|your|someone|somebody|nobody|the) .+)", "{} sees that [x]"),
    (r"any (?P<x>.+ (?:starts|ends|changes))", "{} sees that any [x]"),
    (r"(?P<x>(?:send|leave|add|email|text) .+)", "{} sees that you [x]"),
    (r"(?P<x>(?:connects|disconnects|enters|leaves|exits|changes|rises|drops|starts|stops|ends)(?: .+)?)", "{} [x]"),
    (r"(?:any )?(?P<x>.+ (?:completed|achieved|received|missed|added|changed))", "{} reports [a x]"),
    (r"(?P<x>.+ report)", "{} gives [a x]"),
    (r"(?P<x>temperature|humidity|power|battery level|pm25|value)", "{} reports a change of its [x]"),
)

ACTIONS = {
    **dict.fromkeys(("power on", "turn on", "switch on", "on"), "turn on {}"),
    **dict.fromkeys(("power off", "turn off", "switch off", "off"), "turn off {}"),
    **dict.fromkeys(("power toggle", "toggle", "toggle onoff"), "toggle {}"),
    "power on for a while": "turn on {} for a while",
    "turn on then off": "turn {} on and then off",
    "turn off then on": "turn {} off and then on",
    "turn rule on": "turn on the rule {}",
    "turn rule off": "turn off the rule {}",
    "notifications": "turn on the notifications of {}",
    **dict.fromkeys(("notify", "notification"), "send a notification through {}"),
    "push notification": "send a push notification through {}",
    "alarm action": "sound the alarm of {}",
    "alarm trigger": "sound the alarm of {}",
    "fan auto": "set the fan of {} to auto",
    "play chime": "play a chime on {}",
    "play media": "play media on {}",
    "speak": "speak through {}",
    "publish": "publish a message through {}",
    **dict.fromkeys(("record video", "record"), "record a video with {}"),
    **dict.fromkeys(("take snapshot", "snapshot"), "take a snapshot with {}"),
    **dict.fromkeys(("return to dock", "return to base"), "send {} back to its base"),
    "turn to waypoint": "turn {} to a waypoint",
    "script run": "run {}",
    "scene activate": "activate {}",
    "fire event": "send an event to {}",
    "select option": "choose an option of {}",
    "select source": "choose a source of {}",
    "select next": "choose the next option of {}",
    "update entity": "refresh {}",
    "volume up": "raise the volume of {}",
    "volume down": "lower the volume of {}",
    "volume mute": "mute {}",
    "shuffle set": "shuffle {}",
    "play pause": "play or pause {}",
    "next track": "play the next track on {}",
    "previous track": "play the previous track on {}",
    "send magic packet": "wake up {}",
    "write": "write to {}",
    "set": "set {}",
    "other": "do something with {}",
}

SINGLE = (
    "activate apply arm cancel close create decrement delete disable disarm dismiss dock enable finish increment "
    "install locate lock open pause play press process purge record refresh reload remove report reset restart "
    "resume run start stop trigger unlock update"
)
PHRASAL = (
    "add adjust append arm blink call change create disarm launch log mute play post print publish push quick record "
    "run save send set share show start stop submit subscribe take toggle turn update upload"
)

ACTION_PATTERNS = (
    (rf"(?P<x>{'|'.join(SINGLE.split())})", "[x] {}"),
    (r"set (?:\w+ )?mode (?P<x>.+)", "set {} to [x]"),
    (r"turn (?P<x>on|off) (?P<y>(?!.* for ).+)|turn (?P<z>.+) (?P<w>on|off)", "turn [x w] the [y z] of {}"),
    (r"(?P<x>.+) (?P<y>on|off)", "turn [y] the [x] of {}"),
    (r"(?:switch|set) to (?P<x>.+)", "switch {} to [x]"),
    (r"arm (?P<x>away|home|night)", "arm {} for [x]"),
    (r"addon (?P<x>start|stop|restart)", "[x] {}"),
    (r"(?P<x>volume|level|position) set", "set the [x] of {}"),
    (r"(?P<x>(?:start|stop|pause|resume) \w+ing)", "[x] with {}"),
    (
        r"(?P<x>set|change|adjust|increase|decrease|lower|raise) (?P<y>(?!an? |to )(?!.* (?:from|of) ).+)",
        "[x] the [y] of {}",
    ),
    (r"(?P<x>start|stop|update|mute) (?P<y>(?!an? |the |my |your ).+)", "[x] the [y] of {}"),
    (r"(?P<x>add|create|save|upload|send|record|take|push|publish|post) (?P<y>.+)", "[x] [a y] via {}"),
    (rf"(?P<x>(?:{'|'.join(PHRASAL.split())}) .+)", "[x] via {}"),
)

# Words without "a": uncountable nouns, and words that are determiners or prepositions.
UNCOUNTED = (
    "motion smoke sound co gas moisture humidity temperature pressure power water vibration movement rain noise light "
    "dioxide monoxide quality a an the any my your me to for from with in on of toward todays tomorrows"
)

# Words whose spelling differs from the lower-case key.
SPELLED = {
    **{word: word.upper() for word in ("co", "mqtt", "sms", "url", "pdf", "ifttt", "nfc", "tv", "ac", "rss", "id")},
    "wifi": "Wi-Fi",
    "todays": "today's",
    "tomorrows": "tomorrow's",
    "onoff": "on or off",
}


DEVICE = "{}"  # the place of a device in a phrase
MARK = "*"  # around the name of a device
BARE = frozenset(UNCOUNTED.split())
ESCAPED = "\N{ASTERISK OPERATOR}"  # replaces a mark in a name; looks the same


def sentence(trigger: str, state: str, action: str, device: str) -> str:
    """What a rule does; devices by their display names."""
    before, between, after = template(state, action)
    return f"{before}{_named(trigger)}{between}{_named(device)}{after}"


@lru_cache(maxsize=1 << 15)
def template(state: str, action: str) -> tuple[str, str, str]:
    """The text before, between and after the two names in every sentence of a relation, marks included."""
    default = f'{DEVICE} reports "{_quoted(state.removeprefix("device:"))}"'
    opening, _, clause = (_phrase(state, TRIGGERS, TRIGGER_PATTERNS) or default).partition(DEVICE)
    default = f'let {DEVICE} do "{_quoted(action)}"'
    order, _, rest = (_phrase(action, ACTIONS, ACTION_PATTERNS) or default).partition(DEVICE)
    when = opening if opening[:1].isupper() else f"When {opening}"
    return f"{when}{MARK}", f"{MARK}{clause}, {order}{MARK}", f"{MARK}{rest}"


def _phrase(word: str, phrases: dict[str, str], patterns: tuple[tuple[str, str], ...]) -> str | None:
    """The phrase for a trigger or an action; None if there is none."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", word)  # MotionDetected
    key = re.sub(r"[\s_-]+", " ", spaced).strip().lower()
    domain, _, value = key.rpartition(":")
    for each in (key, value):
        if each in phrases:
            return phrases[each]
    text = value if domain == "device" else key
    if not re.fullmatch(r"(?:(?:state|event):)?[\w '.]+", text):  # cannot be part of a phrase unquoted
        return None
    for pattern, phrase in patterns:
        if found := re.fullmatch(pattern, text):
            return _filled(phrase, found)
    return None


def _filled(phrase: str, found: re.Match[str]) -> str:
    """Fill in a pattern's groups: [x y] is group x, or else y; [a x] adds the article."""

    def part(place: re.Match[str]) -> str:
        names = place[1].split()
        article = names[0] == "a"
        groups = found.groupdict()
        text = next(text for name in [*names[article:], "y"] if (text := groups.get(name)))
        return _spelled(f"{_article(text)}{text}" if article else text)

    return re.sub(r"\[([\w ]+)\]", part, phrase)


def _article(text: str) -> str:
    """For a countable noun; empty for mass nouns, plurals and words with a determiner."""
    first = text.split()[0]
    if first in BARE or text.split()[-1] in BARE or (first.endswith("s") and not first.endswith("ss")):
        return ""
    return "an " if first[0] in "aeio" else "a "


def _spelled(text: str) -> str:
    return " ".join(SPELLED.get(word, word) for word in text.split(" "))


def _quoted(word: str) -> str:
    """On one line, without characters that would end the quotation or mark a device."""
    text = " ".join("".join(c if c.isprintable() else " " for c in word).replace("_", " ").split())
    return text.replace('"', "'").replace(MARK, ESCAPED).replace(DEVICE, "{ }") or "?"


def _named(name: str) -> str:
    if name and MARK not in name and name.isprintable() and not name.isspace():
        return name
    text = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return text.replace(MARK, ESCAPED) or "?"
