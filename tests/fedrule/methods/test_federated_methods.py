"""The federated methods as the registry gives them: fitting, history, and the options of graph methods in the homes."""

from __future__ import annotations

import textwrap
from dataclasses import asdict

import numpy as np
import pytest

pytest.importorskip("torch", reason="the federated methods need the extra graph")
pytest.importorskip("torch_geometric", reason="the federated methods need the extra graph")
pytest.importorskip("numba", reason="the federated methods need the extra graph")

import torch

import datasets
import fedrule.federated
from baselines.contract import all_pairs, check_method, planted_homes
from baselines.registry import build, names
from datasets.common.errors import DataError
from datasets.valid import ValidRules
from fedrule.federated.loop import ServerSchedule
from fedrule.federated.trainers.kernel import KernelTrainer
from fedrule.federated.trainers.trainer import TorchTrainer
from fedrule.methods import federated

METHODS = ["fedgnn", "fedprox", "fedrule", "fedgate", "scaffold"]
PLANTED = planted_homes()
SEEN = ValidRules.of(PLANTED).contains(*(PLANTED.device_type[end][:, None] for end in all_pairs(PLANTED)), range(4))


def fitted(method: str, train=PLANTED, on_round=None, **options):
    short = {"rounds": 3, "hidden": 4, "predictor_hidden": 5}
    listening = {} if on_round is None else {"on_round": on_round}
    return build(method, **(short | options)).fit(train, rng=np.random.default_rng(1), **listening)


def scores(model, homes=PLANTED):
    return model.score_pairs(homes, *all_pairs(homes))


def test_all_five_are_registered():
    assert set(METHODS) <= set(names())


# Other options than the defaults, which the contract is checked with for all registered methods.
OPTIONS = {
    "fedgnn": {"client_optimizer": "adam", "server_optimizer": "plain", "server_rate": 1.0, "learning_rate": 0.05},
    "fedprox": {"participation": 0.5, "sampling": "poisson", "weighting": "rules", "server_optimizer": "yogi"},
    "fedrule": {"client_optimizer": "kept-adam", "control": "gradients", "learning_rate": 0.02, "participation": 0.7},
    "fedgate": {"server_optimizer": "momentum", "server_rate": 0.3, "drop_out": 0.3, "late": 0.1, "corrupted": 0.1},
    "scaffold": {"participation": 0.5, "decay": True, "draws": 4, "predictor_rate": 0.3},
}


@pytest.mark.parametrize(("server", "rate"), [("plain", 1.0), ("momentum", 0.1), ("adam", 0.03), ("yogi", 0.03)])
def test_the_default_rate_of_a_server_is_that_of_its_optimizer(server, rate):
    assert build("fedrule", server_optimizer=server).server_rate == rate
    assert build("fedrule", server_optimizer=server, server_rate=0.5).server_rate == 0.5
    ours = {"adam": 0.005, "yogi": 0.005}
    assert build("fedrank", server_optimizer=server).server_rate == ours.get(server, rate)


# Section 4.2 and Algorithm 2: "Adam, learning rate of 0.1, 100 training rounds, 3 local steps, lambda = 1", hidden 16,
# as many units as relations, and the server adds the mean update to the model.
PAPER = {"hidden": 16, "predictor_hidden": 0, "dropout": 0.0, "rounds": 100, "local_steps": 3, "learning_rate": 0.1}
PAPER |= {"client_optimizer": "kept-adam", "server_optimizer": "plain", "server_rate": 1.0, "participation": 1.0}
PAPER |= {"decay": False, "weighting": "clients", "objective": "bce", "non_rules": "paper", "draws": 0}


@pytest.mark.parametrize("method", METHODS)
def test_preset_paper_is_all_of_the_papers_setting(method):
    own = {"gnn_lambda": 1.0, "predictor_lambda": 1.0} if method == "fedrule" else {}
    control = {"control": "gradients"} if method in ("fedrule", "scaffold") else {}
    built = asdict(build(method, preset="paper"))
    assert {name: built[name] for name in PAPER | own | control} == PAPER | own | control
    assert built == asdict(build(method, **built))  # what a result or a card stores builds the same again


def test_single_options_override_a_preset_and_what_follows_from_them_is_completed():
    assert build("fedrule", preset="paper", learning_rate=0.02).learning_rate == 0.02
    assert build("fedrule", preset="paper", server_optimizer="adam").server_rate == 0.03
    assert build("fedrule", preset="paper", client_optimizer="sgd").control == "updates"
    assert build("fedrule", preset="paper", control="updates").control == "updates"
    assert build("fedrule", preset="paper", gnn_lambda=0.0, predictor_lambda=0.0).control == "updates"
    assert build("scaffold", client_optimizer="adam").control == "gradients"


@pytest.mark.parametrize("method", ["fedgnn", "fedrule"])
def test_a_preset_fits_as_its_options_spelled_out(method):
    spelled = {name: PAPER[name] for name in ("learning_rate", "client_optimizer", "server_optimizer")}
    assert scores(fitted(method, preset="paper")).tobytes() == scores(fitted(method, **spelled)).tobytes()
    assert scores(fitted(method, preset="paper")).tobytes() != scores(fitted(method)).tobytes()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_the_contract_with_other_options_too(method):
    assert check_method(build(method, hidden=8, rounds=5, **OPTIONS[method])) == []


@pytest.mark.parametrize("method", METHODS)
def test_training_finds_rules_of_the_homes_more_likely_than_other_relations(method):
    model = fitted(method, rounds=60, hidden=8, predictor_hidden=8, learning_rate=0.3, server_rate=0.03)
    rules = PLANTED.rules
    found = model.score_pairs(PLANTED, rules.trigger, rules.action)
    own = found[np.arange(len(rules)), rules.relation]
    assert (own > np.median(found, axis=1)).mean() > 0.9
    assert (own > 0).mean() > 0.9  # likelier than not


@pytest.mark.parametrize("method", METHODS)
def test_rounds_are_told_with_what_they_cost(method):
    heard = []

    def listen(done, of, model, values):
        heard.append((done, of, scores(model), dict(values)))

    last = fitted(method, on_round=listen, participation=0.5, drop_out=0.2)
    assert [(done, of) for done, of, _, _ in heard] == [(1, 3), (2, 3), (3, 3)]
    assert heard[-1][2].tobytes() == scores(last).tobytes()
    assert heard[0][2].tobytes() != heard[1][2].tobytes()
    values = heard[-1][3]
    assert {"loss", "clients", "sent_bytes", "received_bytes", "state_bytes", "dropped", "late", "refused"} <= set(
        values
    )
    assert all(isinstance(value, float) and np.isfinite(value) for value in values.values())
    with_rules = len(np.unique(PLANTED.rules.home))
    assert values["clients"] + values["dropped"] == round(0.5 * with_rules)
    # 5 types, 4 relations, hidden 4, 5 units: 2*5*4 + 4 + 2*4*4 + 4 = 80 numbers of the GNN, 2*4*5 + 5 = 45 of the
    # predictor, and 4 rows of 6: 149 numbers of 4 bytes, twice where the server shares a correction.
    corrected = method in ("fedrule", "fedgate", "scaffold")
    assert values["received_bytes"] == 4 * 149 * (1 + corrected)
    # A client sends 125 numbers, and for each relation that it was asked about a row of 6 and which one it is.
    assert 4 * (125 + 7) <= values["sent_bytes"] <= 4 * (125 + 4 * 7)
    # It remembers the 125, and some rows; nothing where nothing is corrected.
    assert values["state_bytes"] == 0 if not corrected else 4 * 125 < values["state_bytes"] <= 4 * 149


def test_moments_that_are_kept_and_dense_corrections_are_counted():
    def memory(**options):
        heard = []
        fitted("fedrule", on_round=lambda *told: heard.append(told[3]), **options)
        return heard[-1]["state_bytes"] / 4 / 149, heard[-1]["sent_bytes"]

    # Whole vectors for each client: own_k; own_k and two moments. With both lambda 0 the moments alone.
    assert memory(predictor_lambda=0.5)[0] == 1
    assert memory(client_optimizer="kept-adam")[0] == 3
    assert memory(client_optimizer="kept-adam", gnn_lambda=0.0, predictor_lambda=0.0)[0] == 2
    # Control parameters of gradients are sent beside the update. Of either all 149 numbers, as moments of Adam move
    # rows without a gradient; the numbers of the 4 rows once for both.
    gradients, updates = (memory(client_optimizer="adam", control=of)[1] for of in ("gradients", "updates"))
    assert updates == 4 * 149 + 4 * 4
    assert gradients == 2 * 4 * 149 + 4 * 4


GRAPH_OPTIONS = {
    "ranking of feasible ones with evidence": {
        "objective": "ranking",
        "non_rules": "feasible",
        "candidates": 5,
        "evidence": 4,
    },
    "evidence alone": {"hidden": 0, "predictor_hidden": 0, "evidence": 4},
    "gat": {"encoder": "gat"},
    "gcn": {"encoder": "gcn"},
    "hidden rules": {"hidden_rules": 0.3},
    "hidden rules in turn": {"hidden_rules": 0.3, "draws": 2},
    "drawn once": {"draws": 1},
    "dropout": {"dropout": 0.5},
    "stopping": {"validation": 0.4, "patience": 1, "rounds": 6},
    "hard": {"non_rules": "hard"},
    "relations in messages": {"messages": "relation", "direction": "both"},
    "node embedding": {"node_embedding": 3},
    "learned bias": {"bias": "learned"},
    "context": {"context": 3},
    "bias alone": {"hidden": 0, "predictor_hidden": 0, "bias": "learned"},
}


@pytest.mark.parametrize("option", GRAPH_OPTIONS.values(), ids=GRAPH_OPTIONS)
def test_every_option_of_graph_methods_works_in_the_homes_and_repeats_itself(option):
    few = {"participation": 0.3, "rounds": 2}
    one = scores(fitted("fedrule", **few | option))
    assert np.isfinite(one[SEEN]).all()
    assert (np.isfinite(one) | (option.get("non_rules", "paper") != "paper")).all()
    assert one.tobytes() == scores(fitted("fedrule", **few | option)).tobytes()
    assert one.tobytes() != scores(fitted("fedrule", **few)).tobytes()


@pytest.mark.parametrize("option", [{}, {"hidden_rules": 0.3}, {"draws": 1}, {"non_rules": "hard"}], ids=str)
@pytest.mark.parametrize("method", ["fedgnn", "fedrule"])
def test_the_kernel_and_one_client_after_the_other_fit_the_same(monkeypatch, method, option):
    assert isinstance(_trainer(method, option), KernelTrainer)
    fast = scores(fitted(method, participation=0.6, **option))
    monkeypatch.setattr(federated, "fits_kernel", lambda _: False)
    monkeypatch.setattr(federated, "fits_batches", lambda _: False)
    assert isinstance(_trainer(method, option), TorchTrainer)
    np.testing.assert_allclose(scores(fitted(method, participation=0.6, **option)), fast, rtol=0, atol=2e-3)


def _trainer(method, option):
    """What a method hands its homes to."""
    built = build(method, **option)
    prepared = built.prepare(PLANTED, np.random.default_rng(0))
    layout = federated.FlatParameters.of(prepared.scorer.initial(federated.torch.Generator()))
    return federated.trainer_of(prepared.train, built.task(prepared, layout, 1))


def test_with_patience_it_goes_back_to_the_round_with_the_best_watched_loss():
    heard = []

    def listen(done, of, model, values):
        heard.append((values["validation_loss"], scores(model)))
        assert done == len(heard) <= of

    options = {"validation": 0.4, "patience": 2, "rounds": 40, "learning_rate": 3.0, "server_rate": 0.3}
    last = scores(fitted("fedgnn", on_round=listen, **options))
    losses = [loss for loss, _ in heard]
    best = int(np.argmin(losses))
    assert len(losses) == best + 1 + 2 < 40
    assert last.tobytes() == heard[best][1].tobytes()


def diverged(method, homes, *, seed=0, **options):
    """Whether a fit diverged, and the most homes whose updates were refused in a round."""
    heard = []
    model = build(method, **options)
    model.fit(homes, rng=np.random.default_rng(seed), on_round=lambda *told: heard.append(told[3]))
    return any(values["diverged"] for values in heard), max(values["refused"] for values in heard)


# Twenty times the server's rate: the weights, and with them the curvature of a home's loss, grow as far in 12 rounds as
# in hundreds of rounds of the defaults.
FAST = {"rounds": 12, "server_rate": 0.6}


@pytest.mark.parametrize("method", METHODS)
def test_the_default_rate_of_clients_is_stable_far_beyond_default_training(method):
    homes = datasets.load("wyze-synthetic", homes=60).merged_types()
    assert diverged(method, homes, **FAST) == (False, 0)
    if method in ("fedrule", "fedgate", "scaffold"):  # a memory of overshoots; ten times the rate is too much for it
        assert diverged(method, homes, **FAST, learning_rate=0.1)[0]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedrule", "fedgate", "scaffold"])
def test_defaults_do_not_diverge_where_a_rate_of_a_tenth_does(method):
    homes = datasets.split(datasets.load("wyze-synthetic", homes=2000).merged_types(), "holdout", seed=0).train
    assert diverged(method, homes, seed=[0, 2]) == (False, 0)
    if method == "fedrule":
        assert diverged(method, homes, seed=[0, 2], learning_rate=0.1)[0]


def test_the_servers_rate_falls_along_half_a_cosine():
    # Of 4 rounds: 1, 0.5 + 0.5 cos(pi / 4) = 0.85355, 0.5, 0.14645 of it.
    run = ServerSchedule("fedgnn", 4, 0, rate=2.0, decay=True)
    assert [run.rate_after(done) for done in range(4)] == pytest.approx([2, 1.70711, 1, 0.29289], abs=1e-5)
    assert scores(fitted("fedgnn", decay=True)).tobytes() != scores(fitted("fedgnn")).tobytes()


def test_the_clients_part_runs_as_its_package_shows_it():
    doc = fedrule.federated.__doc__
    code = textwrap.dedent(doc[doc.index("    method =") : doc.index("`trained.sums`")])
    scope = {"np": np, "torch": torch, "build": build, "homes": datasets.load("wyze-synthetic", homes=20)}
    scope |= {"trainer_of": federated.trainer_of}
    scope |= {name: getattr(fedrule.federated, name) for name in fedrule.federated.__all__}
    exec(code, scope)
    assert scope["trained"].counted.tolist() == [0]
    assert np.abs(scope["trained"].sums.update).max() > 0


def test_pairs_across_homes_are_refused():
    homes = datasets.load("wyze-synthetic", homes=5)
    model = build("fedgnn", rounds=1).fit(homes, rng=np.random.default_rng(0))
    with pytest.raises(DataError, match=r"pair 1 has devices 0 and .* of the homes 0 and 4"):
        model.score_pairs(homes, np.array([0, 0]), np.array([1, homes.n_devices - 1]))
