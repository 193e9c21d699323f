"""What is recommended: a rule between two devices of the home, in words, with its probability and why it is valid."""

from __future__ import annotations

from typing import NamedTuple

from datasets.common.files import Json
from fedrule.inference.asked_home import Id


class Support(NamedTuple):
    """Why a rule is valid: homes that were trained on have carried it out with devices of these types."""

    homes_with_rule: int
    homes_with_both: int  # own devices of both types, so that they could
    trigger_type: str
    action_type: str

    @property
    def text(self) -> str:
        rule, both = f"{self.homes_with_rule:,}", f"{self.homes_with_both:,}"
        own = _a(self.trigger_type)
        if self.action_type != self.trigger_type:
            own += f" and {_a(self.action_type)}"
        return f"{rule} of the {both} homes with {own} that it learned from have this rule"


def _a(word: str) -> str:
    return f"an {word}" if word[:1].lower() in "aeiou" else f"a {word}"


class Recommendation(NamedTuple):
    """One line of the list."""

    rank: int  # from 1
    trigger: Id
    trigger_state: str
    action: str
    action_device: Id
    probability: float  # that it is a rule and not a random non-rule, where there is one of each
    text: str  # e.g. "When *Front door* opens, turn on *Hall light*"
    why: Support

    def as_json(self) -> dict[str, Json]:
        """As the command line and the HTTP service give it."""
        why: Json = {
            "homes_with_rule": self.why.homes_with_rule,
            "homes_with_both": self.why.homes_with_both,
            "text": self.why.text,
        }
        return {**self._asdict(), "why": why}


class Recommendations(NamedTuple):
    """The list of one home, best first, and what of the home could not be used."""

    rules: tuple[Recommendation, ...]
    ignored: tuple[str, ...] = ()  # one sentence for each device and rule that was left out

    def as_json(self) -> dict[str, Json]:
        """As the command line and the HTTP service give it."""
        return {"recommendations": [rule.as_json() for rule in self.rules], "ignored": list(self.ignored)}
