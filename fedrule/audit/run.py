"""The audit itself: trains federations, lets the attacks guess, and compares their guesses with the homes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.sparse import csr_array

from baselines.registry import build
from datasets.common.errors import DataError, unknown
from datasets.common.gaussian_mechanism import default_delta, multiplier_for
from datasets.homes import Homes, Mask
from datasets.private_counts import column_sums, owned_types
from datasets.valid import ValidRules
from fedrule.audit.counts import added_cells, claimed_cells, homes_read, is_member
from fedrule.audit.defences import Defence, mean_update, summed_counts
from fedrule.audit.evidence import invert_evidence
from fedrule.audit.federation import PRIOR_HAVE, PRIOR_OWN, Federation, contributions
from fedrule.audit.findings import Finding, RuleScore
from fedrule.audit.membership import auc, found_at, likelihood_ratios
from fedrule.audit.network import invert_network, touched_rows
from fedrule.audit.view import Guess, UpdateView, guess_of, merged, popular_rules, truth_of
from fedrule.federated.optimizers import Precise
from fedrule.federated.private import Account
from fedrule.federated.rounds import RoundSum
from fedrule.federated.vectors import FlatParameters
from fedrule.methods.federated import DEFAULT_COUNTS_SHARE, Federated
from fedrule.network.score import Scorer
from fedrule.training.examples import Examples

METHODS = ("fedgnn", "fedrule", "fedrank")
PARTS = ("updates", "members", "counts")  # counts are of fedrank only
DEVICES = "how many devices of each type the home has"
HISTORY = "all earlier updates of the home"
POPULATION = "how common rules are in other homes"
FALSE_ALARMS = 0.01

Attack = Callable[[UpdateView], Guess]


@dataclass(frozen=True, slots=True)
class AuditSize:
    """How much is attacked, and by how many attacks."""

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


QUICK = AuditSize()
FULL = AuditSize(
    homes=400,
    targets=100,
    rounds=100,
    cohorts=(2, 4, 8, 16, 32, 64),
    epsilons=(1.0, 4.0, 16.0, 64.0),
    shadows=12,
    shadow_homes=200,
    shadow_rounds=0,
)


def audit(
    homes: Homes,
    size: AuditSize,
    methods: Sequence[str] = METHODS,
    parts: Sequence[str] = PARTS,
    *,
    seed: int = 0,
    on_step: Callable[[str], None] = lambda _: None,
) -> Iterator[Finding]:
    """All findings, one after the other; the same for the same homes, size and seed. `on_step` gets what comes next."""
    check_names(methods, parts)
    list(defences(size, size.homes, private=True))  # where no account can be made, it says so before any work
    for part, name in steps(methods, parts):
        on_step(f"{part} of {name}")
        chosen = sample(homes, size.shadow_homes if part == "members" else size.homes, seed + (part == "members"))
        if part == "updates":
            yield from audit_updates(chosen, name, size, seed=seed)
        elif part == "members":
            yield from audit_members(chosen, name, size, seed=seed)
        else:
            yield from audit_counts(homes, chosen, size, seed=seed)


def check_names(methods: Sequence[str], parts: Sequence[str]) -> None:
    """An error for a method or part that is not audited."""
    for kind, names, known in (("method", methods, METHODS), ("part", parts, PARTS)):
        for name in names:
            if name not in known:
                raise unknown(f"{kind} of the audit", name, known)


def steps(methods: Sequence[str], parts: Sequence[str]) -> list[tuple[str, str]]:
    """What `audit` does: parts and methods."""
    return [(part, name) for name in methods for part in parts if part != "counts" or name == "fedrank"]


def sample(homes: Homes, many: int, seed: int) -> Homes:
    """So many homes that have rules, or all."""
    some = np.flatnonzero(np.bincount(homes.rules.home, minlength=homes.n_homes))
    if len(some) < 4:
        raise DataError(f"{homes.name}: an audit needs at least 4 homes with rules, got {len(some)}")
    rng = np.random.default_rng(seed)
    return homes.subset(np.sort(rng.choice(some, min(many, len(some)), replace=False)))


# ---- updates


def audit_updates(homes: Homes, name: str, size: AuditSize, *, seed: int) -> Iterator[Finding]:
    """Rules of a home from its update, of the first round and after training, and what defences leave of it."""
    default = _method(name)
    attacks: dict[str, Attack] = {"gradient inversion": invert_evidence}
    if name != "fedrank":
        attacks = {"touched rows": touched_rows, "gradient inversion": invert_network}
    for local_steps in dict.fromkeys((default.local_steps, 1)):
        federation = Federation.of(homes, _method(name, local_steps=local_steps), seed=seed)
        for rounds in (0, size.rounds):
            federation = federation.after(rounds)
            measured = UpdateAudit.of(federation, size, seed)
            if not rounds and local_steps == default.local_steps:
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
            if local_steps == default.local_steps:
                private = not federation.public.hyperparameters.corrects  # corrections cannot be private: see `Engine`
                for defence in defences(size, len(measured.sums), private=private):
                    attack = "gradient inversion"
                    yield measured.finding(attack, attacks[attack], defence, knows=(DEVICES, POPULATION))


def defences(size: AuditSize, homes: int, *, private: bool) -> Iterator[Defence]:
    """Secure sums of each size; noise in the home, and both, for each epsilon."""
    cohorts = [n for n in size.cohorts if n < homes]
    yield from (Defence(n) for n in cohorts)
    delta, rate = default_delta(size.account_homes), size.account_cohort / size.account_homes
    for epsilon in size.epsilons if private else ():
        # A home that adds all noise itself is known to take part, so that sampling hides nothing.
        times = max(round(rate * size.account_rounds), 1)
        alone = Account.within(epsilon, delta=delta, sampling_rate=1.0, rounds=times)
        yield Defence(1, epsilon, alone.noise_multiplier)
        account = Account.within(epsilon, delta=delta, sampling_rate=rate, rounds=size.account_rounds)
        yield from (Defence(n, epsilon, account.noise_multiplier) for n in cohorts[-1:])


@dataclass(frozen=True, eq=False)
class UpdateAudit:
    """The updates of one round, and the targets among their homes."""

    federation: Federation
    sums: dict[int, RoundSum]  # of each client
    targets: tuple[int, ...]
    clip: float  # the median norm of weighted updates
    seed: int

    @classmethod
    def of(cls, federation: Federation, size: AuditSize, seed: int) -> UpdateAudit:
        sums = federation.updates(np.arange(federation.homes.n_homes))
        clip = float(np.median([np.linalg.norm(one.update) for one in sums.values()]))
        return cls(federation, sums, tuple(sorted(sums)[: size.targets]), clip, seed)

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
            anybody = np.logical_or.reduce(self.federation.has[with_it])
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


def audit_members(homes: Homes, name: str, size: AuditSize, *, seed: int) -> Iterator[Finding]:
    """Whether a home was trained on, from the final model."""
    options: dict[str, object] = {"rounds": size.shadow_rounds} if size.shadow_rounds else {}
    method = _method(name, **options)
    yield from _members(homes, method, method, size, seed=seed)
    if method.hyperparameters().corrects:
        return
    first = Federation.of(homes, method, seed=seed).updates(np.arange(homes.n_homes))
    clip = float(np.median([np.linalg.norm(one.update) for one in first.values()]))
    for epsilon in size.epsilons:
        private = _method(name, epsilon=epsilon, clip=clip, **options)
        yield from _members(homes, method, private, size, seed=seed)


def _members(homes: Homes, plain: Federated, method: Federated, size: AuditSize, *, seed: int) -> Iterator[Finding]:
    """The attack on models of `method`; `plain` is the same without privacy, by which the loss of a home is defined."""
    member = random_halves(size.shadows, homes.n_homes, seed)
    examples = training_examples(homes, plain, seed=seed)
    reference = plain.prepare(homes, np.random.default_rng(seed)).scorer
    loss: dict[str, list[Precise]] = {}
    for number, inside in enumerate(member):
        fitted = method.fit(homes.subset(inside), rng=np.random.default_rng([seed, number]))
        scorers = {"loss of its rules": fitted.scorer}
        if method.counts_homes:
            scorers = {
                "loss of its rules, by the weights": reference,
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
            "noise in training" if method.epsilon else "none",
            values,
            homes=homes.n_homes // 2,
            trials=trials,
            epsilon=method.epsilon,
            cohort=min(method.cohort or homes.n_homes, homes.n_homes // 2),
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


def audit_counts(homes: Homes, chosen: Homes, size: AuditSize, *, seed: int) -> Iterator[Finding]:
    """What the counting sums of fedrank tell."""
    for many in dict.fromkeys(min(n, homes.n_homes) for n in size.count_homes):
        yield from audit_singles(sample(homes, many, seed))
    yield from audit_count_rules(chosen, size, seed=seed)
    yield from audit_count_members(chosen, size, seed=seed)


def audit_singles(homes: Homes) -> Iterator[Finding]:
    """Cells of a single home in each sum, the homes that have such a cell, and the rules that can be read."""
    tables, n = contributions(homes, ValidRules.of(homes)), homes.n_homes
    for name, table in tables.items():
        total = column_sums(table)
        single = (table @ (total == 1).astype(np.float64)) > 0
        cells = int((total > 0).sum())
        values = {
            "cells of one home": float((total == 1).sum()),
            "cells": float(cells),
            "homes with such a cell": float(single.mean()),
        }
        yield _of_counts(f"counts of 1: {name}", "nothing", values, homes=n, trials=n, defence=Defence(n))
    has = tables["typed rules"]
    read = homes_read(csr_array(has.T @ has))
    true = {tuple(np.sort(has.indices[has.indptr[k] : has.indptr[k + 1]]).tolist()) for k in range(n)}
    right = [row for row in read if tuple(row.tolist()) in true]
    values = {
        "homes read": len(read) / n,
        "rules read": sum(map(len, right)) / max(int(has.sum()), 1),
        "precision": len(right) / max(len(read), 1),
    }
    yield _of_counts("rows of rules of one home", "nothing", values, homes=n, trials=n, defence=Defence(n))


def count_defences(size: AuditSize, cohorts: Sequence[int], noisy: Sequence[int]) -> Iterator[Defence]:
    """Sums over these many homes; and with noise, half of epsilon being for the counts, over these."""
    yield from (Defence(n) for n in dict.fromkeys(cohorts))
    delta = default_delta(size.account_homes)
    for epsilon in size.epsilons:
        multiplier = multiplier_for(DEFAULT_COUNTS_SHARE * epsilon, delta)
        yield from (Defence(n, epsilon, multiplier) for n in dict.fromkeys(noisy))


def audit_count_rules(homes: Homes, size: AuditSize, *, seed: int) -> Iterator[Finding]:
    """Typed rules of a home from the first counting sum, over cohorts and with noise."""
    valid, n = ValidRules.of(homes), homes.n_homes
    table = contributions(homes, valid)["typed rules"]
    has: Mask = np.asarray(table.todense()) > 0
    owns = np.asarray(owned_types(homes).todense()) > 0
    trigger, action, _ = valid.typed()
    total, targets = has.sum(axis=0), range(min(size.targets, n))
    for defence in count_defences(size, [1, *(k for k in size.cohorts if k < n), n], [1, n]):
        score = RuleScore()
        for target in targets:
            rng = np.random.default_rng([seed, target, defence.cohort])
            others = np.delete(np.arange(n), target)
            share = (total - has[target] + PRIOR_HAVE) / (n - 1 + PRIOR_OWN)
            owned = owns[target][trigger] & owns[target][action]
            # The control is a sum without the target, of one home less where all are in it.
            with_it = np.append(rng.choice(others, defence.cohort - 1, replace=False), target)
            without = rng.choice(others, min(defence.cohort, n - 1), replace=False)
            guesses = []
            for which, cohort in enumerate((with_it, without)):
                seen, deviation = summed_counts(table[cohort], "rules", defence, key=(seed, target, which))
                odds = claimed_cells(seen, deviation, share, clients=defence.cohort)
                guesses.append(guess_of(valid, np.where(owned, odds, -np.inf), owned & (odds > 0)))
            score.add(guesses[0], truth_of(valid, has[target]), guesses[1], anybody=np.logical_or.reduce(has[with_it]))
        knows = f"{DEVICES}; {POPULATION}"
        yield _of_counts("typed rules", knows, score.values, homes=n, trials=score.homes, defence=defence)
    score = RuleScore()
    for target in targets:
        chosen = np.zeros(len(valid), dtype=bool)
        chosen[added_cells(total - has[target], total)] = True
        nothing = truth_of(valid, np.zeros(len(valid), dtype=bool))
        score.add(truth_of(valid, chosen), truth_of(valid, has[target]), nothing)
    knows = "the same sum without the home"
    yield _of_counts("difference of two sums", knows, score.values, homes=n, trials=score.homes, defence=Defence(n))


def audit_count_members(homes: Homes, size: AuditSize, *, seed: int) -> Iterator[Finding]:
    """Whether a home is in a sum over half of the homes."""
    valid, n = ValidRules.of(homes), homes.n_homes
    every = contributions(homes, valid)
    tables = {"rules": every["typed rules"], "pairs": every["pairs of typed rules"]}
    member = random_halves(2, n, seed)
    for parts in (("rules",), ("rules", "pairs")):
        for defence in count_defences(size, [n // 2], [n // 2]):
            score = np.zeros(member.shape)
            for which, inside in enumerate(member):
                for part in parts:
                    table = tables[part]
                    seen, deviation = summed_counts(table[inside], part, defence, key=(seed, which))
                    population = column_sums(table)
                    for home in range(n):
                        cells = table.indices[table.indptr[home] : table.indptr[home + 1]]
                        share = (population[cells] - 1 + PRIOR_HAVE) / (n - 1 + PRIOR_OWN)
                        score[which, home] += is_member(seen[cells], deviation, share, homes=int(inside.sum()))
            found = score.reshape(-1), member.reshape(-1)
            values = {"auc": auc(*found), "found at 1 % false alarms": found_at(*found, FALSE_ALARMS)}
            attack = f"membership by {' and '.join(parts)}"
            knows = f"the rules of the home; {POPULATION}"
            yield _of_counts(attack, knows, values, homes=n // 2, trials=score.size, defence=defence)


def _of_counts(
    attack: str, knows: str, values: dict[str, float], *, homes: int, trials: int, defence: Defence
) -> Finding:
    return Finding(
        "fedrank",
        "counts",
        attack,
        knows,
        defence.name,
        values,
        homes=homes,
        trials=trials,
        cohort=defence.cohort,
        epsilon=defence.epsilon,
        noise_multiplier=defence.noise_multiplier,
    )


def _method(name: str, **options: object) -> Federated:
    method = build(name, **options)
    assert isinstance(method, Federated)
    return method
