"""The rank lists that another tool would write: the best rules of a model for each home, as a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from baselines.method import Fitted
from baselines.scoring import CHUNK, allows_self_pairs, hidden_part, pairs_at_once, restrict_homes
from benchmarks.evaluation.rank_lists import COLUMNS
from benchmarks.evaluation.ranking import Candidates
from datasets.homes import Homes, Rules
from datasets.splits import Split
from datasets.submission import Submission
from datasets.valid import ValidRules


def best_rules(
    fitted: Fitted, split: Split, *, part: str = "test", n: int = 50, valid: bool = True, chunk: int = CHUNK
) -> tuple[Homes, Submission]:
    """The best n candidates of every home with hidden rules, and these homes; ties in the order of candidates."""
    homes, _ = restrict_homes(hidden_part(split, part))
    rows = Candidates.of(fitted, homes, valid=ValidRules.of(split.train), self_pairs=allows_self_pairs(split, part))
    n_relations, found, ranks = len(homes.relations), [], []
    for first, end in rows.pairs.runs(pairs_at_once(homes, chunk)):
        begin = int(rows.pairs.start[first])
        block = rows.block(first, end, begin, int(rows.pairs.start[end]))
        scores, is_valid = block.rows(0, len(block.scores))
        cell = np.flatnonzero(~np.isnan(scores) & (is_valid | (not valid)))
        home = np.repeat(np.arange(end - first), block.pairs)[cell // n_relations]
        order = np.lexsort((-scores.ravel()[cell], home))
        place = np.arange(len(cell)) - np.searchsorted(home, home)  # `home` is sorted already
        found.append(begin * n_relations + cell[order[place < n]])
        ranks.append(place[place < n] + 1)
    pair, relation = np.divmod(np.concatenate(found), n_relations)
    return homes, Submission(Rules(*rows.pairs.devices(pair), relation), np.concatenate(ranks))


def write_rank_lists(homes: Homes, ranked: Submission, path: Path | str) -> None:
    """Write rank lists of these homes; the name ends in .csv, .csv.gz or .parquet."""
    rules, path = ranked.rules, Path(path)
    states, actions = (np.array(column, dtype=object) for column in zip(*homes.relations, strict=True))
    values = (
        homes.users[rules.home],
        homes.device_ids[rules.trigger],
        homes.device_ids[rules.action],
        states[rules.relation],
        actions[rules.relation],
        ranked.rank,
    )
    table = pd.DataFrame(dict(zip(COLUMNS, values, strict=True)))
    if path.suffix != ".parquet":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path, index=False)
