"""What a training begins with where it is not the first one: parameters, counts over earlier homes, rules to watch."""

from __future__ import annotations

from dataclasses import dataclass

from datasets.splits import Hidden
from fedrule.model.encoder import Parameters
from fedrule.evidence.statistics import Statistics


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """An argument of `fit`; what is left out is drawn, counted or kept back as the method's options say."""

    parameters: Parameters | None = None  # to go on from
    counts: Statistics | None = None  # over earlier homes and these; its valid rules are the model's
    validation: Hidden | None = None  # rules to watch, of homes whose other rules are trained on
