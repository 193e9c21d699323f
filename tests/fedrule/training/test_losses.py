"""The losses against a plain loop over homes, by hand, and at logits that would overflow."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the objective needs the extra graph")

from fedrule.training.losses import InfoNce, bce, padded, ranking  # noqa: E402

LOSSES = [bce, ranking]
Candidate = tuple[float, bool, int]  # logit, whether it is a rule, home
N_HOMES = 5
CANDIDATES = st.lists(
    st.tuples(st.floats(-30, 30, width=32), st.booleans(), st.integers(0, N_HOMES - 1)), max_size=30
).map(lambda some: sorted(some, key=lambda candidate: candidate[2]))


ONE_EACH = (1.0,) * N_HOMES
STANDS_FOR = st.lists(st.floats(1, 1e5), min_size=N_HOMES, max_size=N_HOMES)


def loss_of(loss, candidates: list[Candidate], stands_for=ONE_EACH, *, dtype=torch.float64):
    """The loss and its gradient by each logit; `stands_for` says how many non-rules a drawn one of each home is."""
    logits = torch.tensor([logit for logit, _, _ in candidates], dtype=dtype, requires_grad=True)
    positive = torch.tensor([rule for _, rule, _ in candidates], dtype=torch.bool)
    home = torch.tensor([home for _, _, home in candidates], dtype=torch.int64)
    value = loss(logits, positive, home, torch.tensor(stands_for, dtype=torch.float64))
    value.backward()
    return value.item(), logits.grad


def plain_bce(candidates: list[Candidate]) -> float:
    """Home by home, as the paper writes it, with probabilities."""
    of_homes = []
    for home in range(N_HOMES):
        mine = [(1 / (1 + math.exp(-logit)), rule) for logit, rule, where in candidates if where == home]
        if mine:
            of_homes.append(-sum(math.log(p if rule else 1 - p) for p, rule in mine) / len(mine))
    return sum(of_homes) / len(of_homes) if of_homes else 0.0


def plain_ranking(candidates: list[Candidate], stands_for=ONE_EACH) -> float:
    """Home by home, rule by rule: minus the log of the rule's share among itself and all that non-rules stand for."""
    total = weights = 0.0
    for home in range(N_HOMES):
        rules = [logit for logit, rule, where in candidates if rule and where == home]
        others = [logit for logit, rule, where in candidates if not rule and where == home]
        if not rules or not others:
            continue
        against = stands_for[home] * sum(math.exp(logit) for logit in others)
        losses = [-math.log(math.exp(logit) / (math.exp(logit) + against)) for logit in rules]
        total += len(rules) ** 0.5 * sum(losses) / len(losses)
        weights += len(rules) ** 0.5
    return total / weights if weights else 0.0


@given(CANDIDATES)
def test_bce_is_the_papers_home_by_home(candidates: list[Candidate]) -> None:
    # 1 - p loses digits where p is near 1: e^30 of 2^53 leaves about 3 of them.
    assert loss_of(bce, candidates)[0] == pytest.approx(plain_bce(candidates), rel=1e-3, abs=1e-9)


@given(CANDIDATES, STANDS_FOR)
def test_ranking_is_the_cross_entropy_rule_by_rule(candidates: list[Candidate], stands_for: list[float]) -> None:
    expected = plain_ranking(candidates, stands_for)
    assert loss_of(ranking, candidates, stands_for)[0] == pytest.approx(expected, rel=1e-9, abs=1e-8)


@given(CANDIDATES, st.integers(1, 4))
def test_a_non_rule_that_stands_for_n_counts_as_n_of_its_logit(candidates: list[Candidate], n: int) -> None:
    copied = [candidate for candidate in candidates for _ in range(1 if candidate[1] else n)]
    value, gradient = loss_of(ranking, candidates, [float(n)] * N_HOMES)
    expected, of_copies = loss_of(ranking, copied)
    assert value == pytest.approx(expected, abs=1e-12)
    assert gradient.sum().item() == pytest.approx(of_copies.sum().item(), abs=1e-12)


@given(CANDIDATES, STANDS_FOR)
def test_the_papers_loss_has_as_many_non_rules_as_were_drawn(candidates: list[Candidate], stands_for) -> None:
    assert loss_of(bce, candidates, stands_for)[0] == loss_of(bce, candidates)[0]


@given(CANDIDATES, st.floats(1, 1e5), st.sampled_from(LOSSES))
def test_the_compiled_copy_for_one_client_is_the_same(candidates: list[Candidate], n: float, loss) -> None:
    pytest.importorskip("numba", reason="compiled gradients need the extra graph")
    from fedrule.federated.trainers.evidence import cross_entropy, ranking_loss

    mine = [(logit, rule, 0) for logit, rule, _ in candidates]
    expected, slope = loss_of(loss, mine, [n] * N_HOMES)
    logits = np.array([logit for logit, _, _ in mine], dtype=np.float32)
    positive, found = np.array([rule for _, rule, _ in mine], dtype=bool), np.zeros(len(mine), dtype=np.float32)
    if loss is ranking:
        value = ranking_loss(logits, positive, math.log(n), found)
    else:
        value = cross_entropy(logits, positive, found) if mine else 0.0
    assert value == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert found.tolist() == pytest.approx(slope.tolist(), rel=1e-5, abs=1e-7)


def test_bce_by_hand() -> None:
    # Home 0: a rule at 0, log 2. Home 3: a rule at log 3, p = 3/4, and a non-rule at log 3: (log 4/3 + log 4) / 2.
    candidates = [(0.0, True, 0), (math.log(3), True, 3), (math.log(3), False, 3)]
    expected = (math.log(2) + (math.log(4 / 3) + math.log(4)) / 2) / 2
    assert loss_of(bce, candidates)[0] == pytest.approx(expected)


def test_ranking_by_hand() -> None:
    # Home 1: one rule among two non-rules of its own logit, log 3. Home 2: four rules at log 2 against one non-rule at
    # 0, each log(1 + 1/2); it counts twice. Home 4 has no non-rule, home 0 no rule: both are left out.
    candidates = [
        (7.0, False, 0),
        *[(1.0, rule, 1) for rule in (True, False, False)],
        *[(math.log(2), True, 2)] * 4,
        (0.0, False, 2),
        (-3.0, True, 4),
    ]
    expected = (math.log(3) + 2 * math.log(3 / 2)) / 3
    value, gradient = loss_of(ranking, candidates)
    assert value == pytest.approx(expected)
    assert gradient[0] == gradient[-1] == 0


def test_ranking_by_hand_where_non_rules_stand_for_many() -> None:
    # A rule at log 6 and two non-rules at 0, each of 15: 30 at e^0 against e^(log 6), log(1 + 30 / 6) = log 6.
    # Its slope is 5/6 down for the rule, and half of that up for each non-rule.
    value, gradient = loss_of(ranking, [(math.log(6), True, 1), (0.0, False, 1), (0.0, False, 1)], [1, 15, 1, 1, 1])
    assert value == pytest.approx(math.log(6))
    assert gradient.tolist() == pytest.approx([-5 / 6, 5 / 12, 5 / 12])


def test_other_rules_of_the_home_do_not_stand_against_a_rule() -> None:
    # The second rule, far above the first, takes nothing from it: log 2, and log(1 + e^-50) = 0; two rules' mean.
    value, _ = loss_of(ranking, [(0.0, True, 0), (50.0, True, 0), (0.0, False, 0)])
    assert value == pytest.approx(math.log(2) / 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("loss", LOSSES)
def test_logits_of_ten_thousand_stay_finite(loss, dtype) -> None:
    far = 1e4
    candidates = [
        *[(-far, True, 0), (far, False, 0)],  # as wrong as can be
        *[(far, True, 1), (-far, False, 1)],  # as right
        *[(-far, True, 2), (-far, False, 2)],
        *[(far, True, 3), (far, False, 3)],
    ]
    value, gradient = loss_of(loss, candidates, dtype=dtype)
    assert math.isfinite(value)
    assert torch.isfinite(gradient).all()
    # bce: (1e4, 0, 1e4 / 2, 1e4 / 2) in the mean of four homes; ranking: (2e4, 0, log 2, log 2).
    expected = 2 * far / 4 if loss is bce else (2 * far + 2 * math.log(2)) / 4
    assert value == pytest.approx(expected)


@pytest.mark.parametrize("loss", LOSSES)
def test_without_candidates_the_loss_is_zero_and_has_a_gradient(loss) -> None:
    value, gradient = loss_of(loss, [])
    assert value == 0
    assert gradient.shape == (0,)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("place", [0, 1])
def test_a_logit_that_is_no_number_is_seen_in_the_loss(loss, place: int) -> None:
    logits = [0.0, 0.0]
    logits[place] = math.nan
    assert math.isnan(loss_of(loss, [(logits[0], True, 0), (logits[1], False, 0)])[0])


@given(CANDIDATES, st.sampled_from(LOSSES), st.randoms(use_true_random=False))
def test_the_order_of_candidates_does_not_matter(candidates: list[Candidate], loss, random) -> None:
    shuffled = random.sample(candidates, len(candidates))
    assert loss_of(loss, shuffled)[0] == pytest.approx(loss_of(loss, candidates)[0], abs=1e-12)


@given(CANDIDATES, st.sampled_from(LOSSES))
def test_a_rule_is_pulled_up_and_a_non_rule_down(candidates: list[Candidate], loss) -> None:
    _, gradient = loss_of(loss, candidates)
    for slope, (_, rule, _) in zip(gradient.tolist(), candidates, strict=True):
        assert slope <= 0 if rule else slope >= 0


# InfoNCE


def plain_infonce(candidates: list[Candidate], temperature: float) -> float:
    """Rule by rule: minus the log of the rule's share among itself and the non-rules of its home."""
    losses = []
    for logit, rule, home in candidates:
        others = [
            math.exp(other / temperature) for other, is_rule, where in candidates if not is_rule and where == home
        ]
        if rule and others:
            own = math.exp(logit / temperature)
            losses.append(-math.log(own / (own + sum(others))))
    return sum(losses) / len(losses) if losses else 0.0


@given(CANDIDATES, STANDS_FOR, st.sampled_from([0.5, 1.0, 2.0]))
def test_infonce_is_the_mean_over_rules_of_their_share_among_the_drawn_non_rules(candidates, stands_for, temperature):
    found, _ = loss_of(InfoNce(temperature), candidates, stands_for)
    assert found == pytest.approx(plain_infonce(candidates, temperature), rel=1e-9, abs=1e-9)


def test_infonce_by_hand():
    # One rule at log 2 against non-rules at 0 and log 3, T = 1: -log(2 / (2 + 1 + 3)) = log 3. With T = 1/2 the
    # exponentials are squared: -log(4 / (4 + 1 + 9)) = log 3.5.
    home = [(math.log(2), True, 0), (0.0, False, 0), (math.log(3), False, 0)]
    assert loss_of(InfoNce(), home)[0] == pytest.approx(math.log(3))
    assert loss_of(InfoNce(0.5), home)[0] == pytest.approx(math.log(3.5))


# Of one home, filled up


@pytest.mark.parametrize(
    "loss", [*LOSSES, InfoNce(), InfoNce(0.2)], ids=["bce", "ranking", "infonce", "infonce at 0.2"]
)
@given(
    own=st.lists(st.tuples(st.floats(-30, 30, width=32), st.booleans()), min_size=1, max_size=12),
    added=st.lists(st.floats(-30, 30, width=32), max_size=5),
    stands_for=st.floats(1, 1e5),
)
def test_candidates_that_do_not_count_change_neither_the_loss_of_a_home_nor_its_gradient(loss, own, added, stands_for):
    expected, slopes = loss_of(loss, [(logit, rule, 0) for logit, rule in own], (stands_for,))
    logits = torch.tensor([logit for logit, _ in own] + added, dtype=torch.float64, requires_grad=True)
    positive = torch.tensor([rule for _, rule in own] + [True] * len(added))
    counts = torch.arange(len(logits)) < len(own)
    other = torch.ones(1, len(logits), dtype=torch.float64)  # a home beside it, with numbers of its own
    of_both = padded(loss)(
        torch.cat([logits[None], other]),
        torch.stack([positive, ~positive]),
        torch.stack([counts, torch.ones_like(counts)]),
        torch.tensor([stands_for, 2.0], dtype=torch.float64),
    )
    found = of_both[0]
    found.backward()
    assert found.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert logits.grad[: len(own)].numpy() == pytest.approx(slopes.numpy(), rel=1e-9, abs=1e-9)
    assert not logits.grad[len(own) :].any()


def test_an_objective_of_somebody_else_has_no_such_form():
    assert padded(lambda *_: torch.zeros(())) is None
