"""The audit itself: trains federations, lets the attacks guess, and compares their guesses with the homes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from scipy.sparse import csr_array, hstack

from baselines.gaussian_mechanism import default_delta, multiplier_for
from baselines.registry import build
from datasets.common.errors import DataError, unknown
from datasets.homes import Homes, Mask
from datasets.valid import ValidRules
from fedrule.audit.counts import added_cells, claimed_cells, homes_read, is_member
from fedrule.audit.defences import Defence, mean_update, summed_counts
from fedrule.audit.evidence import invert_evidence
from fedrule.audit.federation import Federation, contributions
from fedrule.audit.findings import Finding, RuleScore
from fedrule.audit.membership import auc, found_at, likelihood_ratios
from fedrule.audit.network import invert_network, touched_rows
from fedrule.audit.view import Guess, UpdateView, guess_of, merged, popular_rules
from fedrule.federated.optimizers import Precise
from fedrule.federated.private import Account
from fedrule.federated.rounds import RoundSum
from fedrule.federated.vectors import FlatParameters
from fedrule.methods.federated import Federated
from fedrule.network.score import Scorer
from fedrule.training.examples import Examples

METHODS = ("fedgnn", "fedrule", "fedrank")
DEVICES = "how many devices of each type the home has"
HISTORY = "all earlier updates of the home"
POPULATION = "how common rules are in other homes"
FALSE_ALARMS = 0.01

Attack = Callable[[UpdateView], Guess]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is attacked."""

    homes: int = 200  # of the federation whose updates are attacked
    targets: int = 50  # of these homes
    rounds: int = 30  # of training before the updates that are not of the first round
    cohorts: tuple[int, ...] = (2, 8, 64)  # homes in a secure sum
    epsilons: tuple[float, ...] = (4.0, 64.0)  # of a whole run
    account_homes: int = 76_218  # of the federation that noise is computed for: the more, the less noise
    account_cohort: int = 64
    account_rounds: int = 400
    shadows: int = 6  # models for membership, each of half of the homes
    shadow_homes: int = 80
    shadow_rounds: int = 60  # of each; 0: the method's own
    count_homes: tuple[int, ...] = (100, 1000, 10_000, 76_218)

    def __post_init__(self) -> None:
        for name, least in (("homes", 4), ("targets", 1), ("shadows", 4), ("shadow_homes", 4)):
            if getattr(self, name) < least:
                raise DataError(f"audit: {name} must be at least {least}, got {getattr(self, name)}")
        if any(epsilon <= 0 for epsilon in self.epsilons):
            raise DataError(f"audit: epsilon must be above 0, got {', '.join(map(str, self.epsilons))}")


QUICK = Plan()
FULL = Plan(
    homes=1000,
    targets=200,
    rounds=100,
    cohorts=(2, 4, 8, 16, 32, 64),
    epsilons=(1.0, 4.0, 16.0, 64.0),
    shadows=16,
    shadow_homes=200,
    shadow_rounds=0,
)


def audit(
    homes: Homes,
    plan: Plan,
    methods: Sequence[str] = METHODS,
    *,
    seed: int = 0,
    on_step: Callable[[str], None] = lambda _: None,
) -> Iterator[Finding]:
    """All findings, one after the other; the same for the same homes, plan and seed. `on_step` is told what comes."""
    for name in methods:
        if name not in METHODS:
            raise unknown("method of the audit", name, METHODS)
    chosen = sample(homes, plan.homes, seed)
    for name in methods:
        on_step(f"updates of {name}")
        yield from audit_updates(chosen, name, plan, seed=seed)
        on_step(f"members of {name}")
        yield from audit_members(sample(homes, plan.shadow_homes, seed + 1), name, plan, seed=seed)
    if "fedrank" in methods:
        on_step("counts of fedrank")
        yield from audit_counts(homes, chosen, plan, seed=seed)


def n_steps(methods: Sequence[str]) -> int:
    """How often `audit` calls `on_step`."""
    return 2 * len(methods) + ("fedrank" in methods)


def sample(homes: Homes, many: int, seed: int) -> Homes:
    """So many homes that have rules, or all."""
    some = np.flatnonzero(np.bincount(homes.rules.home, minlength=homes.n_homes))
    if len(some) < 4:
        raise DataError(f"{homes.name}: an audit needs at least 4 homes with rules, got {len(some)}")
    rng = np.random.default_rng(seed)
    return homes.subset(np.sort(rng.choice(some, min(many, len(some)), replace=False)))


# ---- updates


def audit_updates(homes: Homes, name: str, plan: Plan, *, seed: int) -> Iterator[Finding]:
    """Rules of a home from its update, of the first round and after training, and what defences leave of it."""
    default = _method(name)
    attacks: dict[str, Attack] = {"gradient inversion": invert_evidence}
    if name != "fedrank":
        attacks = {"touched rows": touched_rows, "gradient inversion": invert_network}
    for steps in dict.fromkeys((default.local_steps, 1)):
        federation = Federation.of(homes, replace(default, local_steps=steps), seed=seed)
        for rounds in (0, plan.rounds):
            federation = federation.after(rounds)
            measured = UpdateAudit.of(federation, plan, seed)
            if not rounds and steps == default.local_steps:
                yield measured.finding("most common rules", popular_rules, Defence(), knows=(DEVICES, POPULATION))
            for attack, function in attacks.items():
                # The network's own rows say which types a home has; the evidence network's do not.
                knows = (DEVICES, POPULATION) if name == "fedrank" else (POPULATION,)
                yield measured.finding(attack, function, Defence(), knows=knows)
                if federation.own(measured.targets[0]) is not None:
                    knows = (*knows, HISTORY)
                    yield measured.finding(attack, function, Defence(), knows=knows)
            if name == "fedrank":
                yield measured.several(invert_evidence, draws=max(default.draws, 1))
            if steps == default.local_steps:
                for defence in defences(plan, len(measured.sums)):
                    attack = "gradient inversion"
                    yield measured.finding(attack, attacks[attack], defence, knows=(DEVICES, POPULATION))


def defences(plan: Plan, homes: int) -> Iterator[Defence]:
    """Secure sums of each size; noise in the home, and both, for each epsilon."""
    cohorts = [n for n in plan.cohorts if n < homes]
    yield from (Defence(n) for n in cohorts)
    delta, rate = default_delta(plan.account_homes), plan.account_cohort / plan.account_homes
    for epsilon in plan.epsilons:
        # A home that adds all noise itself is known to take part, so that sampling hides nothing.
        times = max(round(rate * plan.account_rounds), 1)
        alone = Account.within(epsilon, delta=delta, sampling_rate=1.0, rounds=times)
        yield Defence(1, epsilon, alone.noise_multiplier)
        account = Account.within(epsilon, delta=delta, sampling_rate=rate, rounds=plan.account_rounds)
        yield from (Defence(n, epsilon, account.noise_multiplier) for n in cohorts[-1:])


@dataclass(frozen=True, eq=False)
class UpdateAudit:
    """The updates of one round, and the targets among their homes."""

    federation: Federation
    sums: dict[int, RoundSum]  # of each client
    targets: tuple[int, ...]
    clip: float  # the median norm of updates
    seed: int

    @classmethod
    def of(cls, federation: Federation, plan: Plan, seed: int) -> UpdateAudit:
        sums = federation.updates(np.arange(federation.homes.n_homes))
        clip = float(np.median([np.linalg.norm(one.update) / one.weight for one in sums.values()]))
        return cls(federation, sums, tuple(sorted(sums)[: plan.targets]), clip, seed)

    def finding(self, attack: str, function: Attack, defence: Defence, *, knows: tuple[str, ...]) -> Finding:
        """The attack on each target, in a cohort that is drawn for it."""
        score = RuleScore()
        for target in self.targets:
            rng = np.random.default_rng([self.seed, target, defence.cohort])
            others = [client for client in self.sums if client != target]
            with_it = [target, *rng.choice(others, defence.cohort - 1, replace=False).tolist()]
            without = rng.choice(others, defence.cohort, replace=False).tolist()
            guess, control = (
                function(self._view(target, cohort, defence, knows, key=(self.seed, target, which)))
                for which, cohort in enumerate((with_it, without))
            )
            anybody: Mask = self.federation.has[with_it].any(axis=0)
            score.add(guess, self.federation.truth(target), control, anybody=anybody)
        return self._finding(attack, knows, defence, score)

    def _view(
        self, target: int, cohort: list[int], defence: Defence, knows: tuple[str, ...], *, key: tuple[int, ...]
    ) -> UpdateView:
        update, deviation = mean_update([self.sums[k] for k in cohort], defence, clip=self.clip, key=key)
        view = self.federation.view(target, update, deviation, clients=len(cohort))
        if HISTORY in knows:  # of whoever sent it
            view = replace(view, own=self.federation.own(cohort[0]))
        return view if DEVICES in knows else replace(view, devices=None)

    def _finding(self, attack: str, knows: tuple[str, ...], defence: Defence, score: RuleScore) -> Finding:
        method = self.federation.method
        return Finding(
            method.NAME,
            "update",
            attack,
            "; ".join(knows),
            defence.name,
            score.values,
            homes=self.federation.homes.n_homes,
            trials=score.homes,
            cohort=defence.cohort,
            epsilon=defence.epsilon,
            noise_multiplier=defence.noise_multiplier,
            round=self.federation.state.round,
            local_steps=method.local_steps,
        )

    def several(self, function: Attack, *, draws: int) -> Finding:
        """The attack on updates of several rounds of each target: each has another part of the rules hidden."""
        score, guesses, federation = RuleScore(), {target: list[Guess]() for target in self.targets}, self.federation
        for _ in range(draws):
            sums = federation.updates(np.array(self.targets))
            for target, one in sums.items():
                view = federation.view(target, one.update / one.weight, 0.0, clients=1)
                guesses[target].append(function(view))
            federation = federation.skipped()
        for target, found in guesses.items():
            other = self.targets[(self.targets.index(target) + 1) % len(self.targets)]
            score.add(merged(found), self.federation.truth(target), self._control(function, other, target))
        return self._finding(f"gradient inversion, {draws} rounds", (DEVICES, POPULATION), Defence(), score)

    def _control(self, function: Attack, other: int, target: int) -> Guess:
        """The attack on the update of another home, taken for the target's."""
        one = self.sums[other]
        return function(self.federation.view(target, one.update / one.weight, 0.0, clients=1))


# ---- members


def audit_members(homes: Homes, name: str, plan: Plan, *, seed: int) -> Iterator[Finding]:
    """Whether a home was trained on, from the final model."""
    method = _method(name)
    if plan.shadow_rounds:
        method = replace(method, rounds=plan.shadow_rounds)
    yield from _members(homes, method, plan, Defence(), seed=seed)
    if {"epsilon", "clip"} <= {field.name for field in fields(method)}:
        for epsilon in plan.epsilons:
            private = replace(method, epsilon=epsilon)
            yield from _members(homes, private, plan, Defence(homes.n_homes, epsilon), seed=seed)


def _members(homes: Homes, method: Federated, plan: Plan, defence: Defence, *, seed: int) -> Iterator[Finding]:
    member = random_halves(plan.shadows, homes.n_homes, seed)
    examples = training_examples(homes, method, seed=seed)
    prepared = method.prepare(homes, np.random.default_rng(seed)).scorer
    loss: dict[str, list[Precise]] = {}
    for number, inside in enumerate(member):
        fitted = method.fit(homes.subset(inside), rng=np.random.default_rng([seed, number]))
        scorers = {"loss of its rules": fitted.scorer}
        if method.counts_homes:
            scorers = {
                "loss of its rules, by the weights": prepared,
                "loss of its rules, with the counts": fitted.scorer,
            }
        for attack, scorer in scorers.items():
            loss.setdefault(attack, []).append(home_losses(scorer, fitted.parameters, method, examples))
    for attack, each in loss.items():
        values, trials = membership_values(np.stack(each), member)
        yield Finding(
            method.NAME,
            "model",
            attack,
            "the rules of the home; homes of the same population to train shadow models on",
            "none" if not defence.epsilon else "noise at the server",
            values,
            homes=homes.n_homes // 2,
            trials=trials,
            epsilon=defence.epsilon,
            cohort=homes.n_homes // 2,
            round=method.rounds,
            local_steps=method.local_steps,
        )


def random_halves(n_models: int, n_homes: int, seed: int) -> Mask:
    """[n_models, n_homes]: each home is in each model with probability 1/2, independently.

    With just half of the models for each home, membership in the others would tell of membership in this one.
    """
    member: Mask = np.random.default_rng(seed).random((n_models, n_homes)) < 0.5
    return member


def membership_values(loss: Precise, member: Mask) -> tuple[dict[str, float], int]:
    """Each model is attacked with the others as shadows; AUC over all models and homes."""
    scores = []
    for victim in range(len(loss)):
        others = np.arange(len(loss)) != victim
        scores.append(likelihood_ratios(loss[victim], loss[others], member[others]))
    score = np.stack(scores)
    known = np.isfinite(score)
    found = found_at(score[known], member[known], FALSE_ALARMS)
    return {"auc": auc(score[known], member[known]), "found at 1 % false alarms": found}, int(known.sum())


def training_examples(homes: Homes, method: Federated, *, seed: int, draws: int = 4) -> list[Examples]:
    """Examples of the homes as a client would draw them, with which an attacker takes the loss of a known home."""
    prepared = method.prepare(homes, np.random.default_rng(seed))
    initial = prepared.scorer.initial(torch.Generator().manual_seed(seed))
    task = method.task(prepared, FlatParameters.of(initial), seed=seed)
    sampler, everybody = task.sampler(homes), np.arange(homes.n_homes)
    return [
        sampler.draw(task.key(number, everybody), score=task.score(task.layout.flat(initial)))
        for number in range(draws)
    ]


def home_losses(
    scorer: Scorer, parameters: dict[str, torch.Tensor], method: Federated, examples: Sequence[Examples]
) -> Precise:
    """[n_homes]: the mean loss of each home over the draws in which it has a rule to predict; NaN where it has none."""
    total, many = np.zeros(examples[0].full.n_homes), np.zeros(examples[0].full.n_homes)
    for drawn in examples:
        with torch.no_grad():
            logits = scorer.logits_of(parameters, scorer.query(drawn.context, drawn.candidates)).float()
        positive, stands_for = torch.tensor(drawn.positive), torch.tensor(drawn.stands_for)
        start = np.searchsorted(drawn.candidates.home, np.arange(len(total) + 1))
        for home in np.flatnonzero(np.diff(start)):
            part = slice(int(start[home]), int(start[home + 1]))
            zeros = torch.zeros(part.stop - part.start, dtype=torch.int64)
            loss = method.objective_function(logits[part], positive[part], zeros, stands_for[home : home + 1])
            total[home] += float(loss)
            many[home] += 1
    return np.where(many > 0, total / np.maximum(many, 1), np.nan)


# ---- counts


def audit_counts(homes: Homes, chosen: Homes, plan: Plan, *, seed: int) -> Iterator[Finding]:
    """What the counting sums of fedrank tell."""
    for many in dict.fromkeys(min(n, homes.n_homes) for n in plan.count_homes):
        yield from audit_singles(sample(homes, many, seed))
    yield from audit_count_rules(chosen, plan, seed=seed)
    yield from audit_count_members(chosen, plan, seed=seed)


def audit_singles(homes: Homes) -> Iterator[Finding]:
    """Cells of a single home in each sum, the homes that have such a cell, and the rules that can be read."""
    valid = ValidRules.of(homes)
    tables = contributions(homes, valid)
    for name, table in tables.items():
        total = np.asarray(table.sum(axis=0)).ravel()
        single = (table @ (total == 1).astype(np.float64)) > 0
        cells = int((total > 0).sum())
        values = {
            "cells of one home": float((total == 1).sum()),
            "cells": float(cells),
            "homes with such a cell": float(single.mean()),
        }
        yield _of_counts(f"counts of 1: {name}", "nothing", "secure sum", values, homes.n_homes, homes.n_homes)
    has = tables["typed rules"]
    read = homes_read(csr_array(has.T @ has))
    true = {tuple(np.sort(has.indices[has.indptr[k] : has.indptr[k + 1]]).tolist()) for k in range(homes.n_homes)}
    right = [row for row in read if tuple(row.tolist()) in true]
    values = {
        "homes read": len(read) / homes.n_homes,
        "rules read": sum(map(len, right)) / max(int(has.sum()), 1),
        "precision": len(right) / max(len(read), 1),
    }
    yield _of_counts("rows of rules of one home", "nothing", "secure sum", values, homes.n_homes, homes.n_homes)


def audit_count_rules(homes: Homes, plan: Plan, *, seed: int) -> Iterator[Finding]:
    """Typed rules of a home from the first counting sum, over cohorts and with noise."""
    valid = ValidRules.of(homes)
    has = contributions(homes, valid)["typed rules"]
    targets, n = np.arange(homes.n_homes)[: plan.targets], homes.n_homes
    sum_all = np.asarray(has.sum(axis=0)).ravel()
    delta = default_delta(plan.account_homes)
    everybody = [Defence(), *(Defence(k) for k in (*plan.cohorts, n) if k <= n)]
    noisy = [Defence(k, e, multiplier_for(e, delta)) for e in plan.epsilons for k in (1, n)]
    devices = np.bincount(homes.device_home * valid.n_types + homes.device_type, minlength=n * valid.n_types)
    devices = devices.reshape(n, valid.n_types)
    trigger, action, _ = valid.typed()
    for defence in dict.fromkeys([*everybody, *noisy]):
        score = RuleScore()
        for target in targets.tolist():
            rng = np.random.default_rng([seed, target, defence.cohort])
            others = np.delete(np.arange(n), target)
            truth = np.asarray(has[[target]].todense()).ravel() > 0
            share = (sum_all - truth + 0.3) / (n - 1 + 3)
            owned = (devices[target][trigger] > 0) & (devices[target][action] > 0)
            guesses = []
            for inside in (True, False):  # and the control, without the target
                some = rng.choice(others, defence.cohort - inside, replace=defence.cohort - inside > len(others))
                cohort = has[np.append(some, target) if inside else some]
                total, deviation = summed_counts(cohort, defence, key=(seed, target, inside))
                odds = np.where(owned, claimed_cells(total, deviation, share, clients=defence.cohort), -np.inf)
                guesses.append(guess_of(valid, odds, odds > 0))
            score.add(guesses[0], guess_of(valid, truth.astype(float), truth), guesses[1])
        yield _of_counts("typed rules", f"{DEVICES}; {POPULATION}", defence.name, score.values, n, score.homes, defence)
    # Two sums that differ by one home.
    score = RuleScore()
    for target in targets.tolist():
        truth = np.asarray(has[[target]].todense()).ravel() > 0
        chosen = np.zeros(len(valid), dtype=bool)
        chosen[added_cells(sum_all - truth, sum_all)] = True
        guess = guess_of(valid, chosen.astype(float), chosen)
        nothing = guess_of(valid, np.zeros(len(valid)), np.zeros(len(valid), dtype=bool))
        score.add(guess, guess_of(valid, truth.astype(float), truth), nothing)
    yield _of_counts(
        "difference of two sums",
        "the same sum without the home",
        "secure sum",
        score.values,
        n,
        score.homes,
        Defence(n),
    )


def audit_count_members(homes: Homes, plan: Plan, *, seed: int) -> Iterator[Finding]:
    """Whether a home is in a sum over half of the homes."""
    valid = ValidRules.of(homes)
    tables = contributions(homes, valid)
    delta, n = default_delta(plan.account_homes), homes.n_homes
    for name, table in {
        "typed rules": tables["typed rules"],
        "all sums": csr_array(hstack([t for t in tables.values() if t.shape[1]], format="csr")),
    }.items():
        for defence in (Defence(n // 2), *(Defence(n // 2, e, multiplier_for(e, delta)) for e in plan.epsilons)):
            member, scores = random_halves(2, n, seed), []
            for which, inside in enumerate(member):
                total, deviation = summed_counts(table[inside], defence, key=(seed, which))
                population = np.asarray(table.sum(axis=0)).ravel()
                for home in range(n):
                    cells = table.indices[table.indptr[home] : table.indptr[home + 1]]
                    others = (population[cells] - 1 + 0.3) / (n - 1 + 3)
                    share = np.zeros(table.shape[1])
                    share[cells] = others
                    scores.append(is_member(total, deviation, cells, share, homes=int(inside.sum())))
            score, truth = np.array(scores), member.reshape(-1)
            values = {"auc": auc(score, truth), "found at 1 % false alarms": found_at(score, truth, FALSE_ALARMS)}
            knows = f"the home; {POPULATION}"
            yield _of_counts(f"membership: {name}", knows, defence.name, values, n // 2, len(score), defence)


def _of_counts(
    attack: str,
    knows: str,
    defence: str,
    values: dict[str, float],
    homes: int,
    trials: int,
    against: Defence | None = None,
) -> Finding:
    against = against or Defence(homes)
    return Finding(
        "fedrank",
        "counts",
        attack,
        knows,
        defence,
        values,
        homes=homes,
        trials=trials,
        cohort=against.cohort,
        epsilon=against.epsilon,
        noise_multiplier=against.noise_multiplier,
    )


def _method(name: str) -> Federated:
    method = build(name)
    assert isinstance(method, Federated)
    return method
