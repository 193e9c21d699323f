"""What is counted over homes before the first round, by sums that nodes send: the setup of a run.

Nodes say how many homes they hold, and homes add up which typed rules there are and, for methods that count homes, the
rest of `fedrule.evidence.statistics`. The sums are kept before any node hears of them. In a private run they have
noise, and what was released stays released: a server that was stopped in between does not draw noise again.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Array
from datasets.valid import ValidRules
from fedrule.evidence.statistics import Statistics
from fedrule.federated.array_file import AnyArray
from fedrule.flower.messages import Kind, Message, unpack_mask
from fedrule.flower.method import check_deployment, threshold_of_nodes, valid_rules
from fedrule.flower.server.folder import MEMBERS, RELEASED, SETUP, ServerFolder
from fedrule.flower.server.membership import Member, Membership, assign_numbers
from fedrule.flower.vocabulary import Vocabulary
from fedrule.methods.federated import Federated

if TYPE_CHECKING:
    from datasets.private_counts import NoisySum

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """All that is known before the first round."""

    with_rules: AnyArray  # [n_clients]  bool
    valid: ValidRules
    self_pairs: bool  # whether a device acts on itself in any home
    counts: Statistics  # of a method that counts nothing homes by rule alone, and zeros in a private run


@dataclass(frozen=True, slots=True, eq=False)
class HomeCounts:
    """Counts over the homes of the nodes of a run."""

    method: Federated
    vocabulary: Vocabulary
    membership: Membership
    folder: ServerFolder

    def setup(self) -> Setup:
        """From the folder if it is there; else by asking all nodes, whose members are numbered then."""
        membership, options = self.membership, self.membership.options
        if (saved := self.folder.read(SETUP, self._run)) is not None:
            about, arrays = saved
            membership.members = _members(about)
            membership.connect(enough=min(options.nodes, len(membership.members)))
            with_rules, valid = arrays.pop("with_rules"), valid_rules(self.vocabulary, arrays.pop("cell"))
            return Setup(with_rules, valid, bool(about["self_pairs"]), self._sum(valid, [arrays]))
        released = self.folder.read(RELEASED, self._run)
        begun = released or self.folder.read(MEMBERS, self._run)
        if begun is not None:  # all of the homes whose rules were counted, or may have been, belong to the run
            membership.members = _members(begun[0])
            membership.connect(
                enough=len(membership.members),
                remedy="the run was stopped when they were counting, and needs all of them: start the others, or start "
                "a new run in an empty folder",
            )
        else:
            membership.connect(enough=options.nodes)
        membership.members = membership.members or assign_numbers(
            [
                (name, answer.number("homes"), cast("int | None", answer.value("first")))
                for name, answer in membership.joined.items()
            ]
        )
        with_rules = np.zeros(max(member.clients.stop for member in membership.members), dtype=bool)
        for member in membership.members:
            bits = membership.joined[member.node].array("with_rules")
            with_rules[member.clients] = unpack_mask(bits, member.homes)
        check_deployment(self.method, len(membership.members), with_rules=with_rules)
        if self.method.secure_threshold:  # a sum over other nodes would tell, beside this one, what single ones counted
            self.folder.write(MEMBERS, self._run, {}, members=self._members)
        if self.method.privacy.noisy:
            counts = self._private_counts(len(with_rules), released)
            self_pairs = True  # whether a device acts on itself anywhere is not in the account
        else:
            counts = self._exact_counts()
            self_pairs = bool(counts.self_rules.any())
        setup = Setup(with_rules, counts.valid, self_pairs, counts)
        arrays = {**counts.arrays(all_patterns=self._all_patterns), "cell": counts.valid.cell, "with_rules": with_rules}
        self.folder.write(SETUP, self._run, arrays, members=self._members, self_pairs=self_pairs)
        return setup

    @property
    def _run(self) -> str:
        return self.membership.identity.run

    @property
    def _all_patterns(self) -> bool:
        return self.method.evidence > 0

    @property
    def _members(self) -> list[dict[str, Any]]:
        return [asdict(member) for member in self.membership.members]

    def _nobody(self, valid: ValidRules) -> Statistics:
        names = self.vocabulary.types, self.vocabulary.relations
        nobody = Statistics.of_nobody(*names, valid, all_patterns=self._all_patterns)
        return replace(nobody, noisy=self.method.privacy.noisy)

    def _sum(self, valid: ValidRules, parts: Sequence[Mapping[str, AnyArray]]) -> Statistics:
        """The sum of what nodes counted."""
        total = nobody = self._nobody(valid)
        for arrays in parts:
            total = total + nobody.with_arrays({name: array.astype(np.int64) for name, array in arrays.items()})
        return total

    def _exact_counts(self) -> Statistics:
        """Homes by typed rule, of all rules that some home has, and the rest where the method counts homes."""
        have, alone = self._rules()
        cell = np.flatnonzero(have)
        valid, membership = valid_rules(self.vocabulary, cell), self.membership
        nobody = self._nobody(valid)
        if not self.method.counts_homes:  # nobody asks who owns which types: of `both` nothing is known
            n_homes = sum(member.homes for member in membership.members)
            return replace(
                nobody, n_homes=n_homes, have=(np.append(0, have[cell]), *nobody.have[1:]), self_rules=alone[cell]
            )
        request = membership.request(Kind.COUNTS, {"cell": cell})
        requests = self._to_all(request)
        if self.method.secure_threshold:
            return nobody.with_integers(self._secure_sum("counts", requests, len(nobody.integers())))
        answers = membership.ask(requests, all_of_them=True)
        sent = sum(answer.payload_bytes for answer in answers.values())
        log.info("%s: the nodes sent %.1f kB of counts", self.method.NAME, sent / 1e3)
        return self._sum(valid, [answer.arrays for answer in answers.values()])

    def _to_all(self, request: Message) -> dict[str, Message]:
        return {member.node: request for member in self.membership.members}

    def _rules(self) -> tuple[Array, Array]:
        """[n_cells] each: homes with each typed rule, and those in which a device has it with itself."""
        n_cells = len(self.vocabulary.types) ** 2 * len(self.vocabulary.relations)
        requests = self._to_all(self.membership.request(Kind.RULES))
        if self.method.secure_threshold:
            total = self._secure_sum("rules", requests, 2 * n_cells)
            return total[:n_cells], total[n_cells:]
        have, alone = np.zeros(n_cells, dtype=np.int64), np.zeros(n_cells, dtype=np.int64)
        for node, answer in self.membership.ask(requests, all_of_them=True).items():
            for total, name in ((have, ""), (alone, "self_")):
                cell, count = answer.array(f"{name}cell"), answer.array(f"{name}count")
                if (
                    cell.shape != count.shape
                    or cell.ndim != 1
                    or (len(cell) and not 0 <= cell.min() <= cell.max() < n_cells)
                ):
                    raise DataError(
                        f"node {node}: counts of rules that are not in the vocabulary of this run; leave it out"
                    )
                np.add.at(total, cell, count)
        return have, alone

    def _secure_sum(self, name: str, requests: Mapping[str, Message], size: int) -> Array:
        """The sum over all nodes, of which the server sees no addend; an error where one is missing."""
        from fedrule.flower.server.secure import kept_total, secure_total

        nodes = [*requests]
        compute = partial(
            secure_total,
            nodes,
            requests,
            size=size,
            name=f"{self._run}.{name}",
            threshold=threshold_of_nodes(self.method, len(nodes)),
            ask=lambda each: self.membership.ask(each, all_of_them=True),
        )
        found = kept_total(self.folder, self._run, name, compute)
        log.info("%s: %d bytes of a node in a secure sum of %s", self._run, max(found.sent.values()), name)
        return found.total

    def _private_counts(self, n_homes: int, released: tuple[dict[str, Any], dict[str, AnyArray]] | None) -> Statistics:
        """Counts with noise that nobody can predict; a method without counts has none, and all rules are valid."""
        from datasets import private_counts  # of private runs only
        from datasets.common.gaussian_mechanism import secret_normals
        from fedrule.evidence import private_statistics

        method, vocabulary = self.method, self.vocabulary
        if not method.counts_share:
            every = np.arange(len(vocabulary.types) ** 2 * len(vocabulary.relations))
            return self._nobody(valid_rules(vocabulary, every))
        account = method.privacy.account(n_homes, method.engine().cohorts.fraction(n_homes))
        rules = self._noisy_rules(account.counts, n_homes, released)
        valid = private_counts.valid_rules(rules, vocabulary)
        request = self.membership.request(Kind.COUNTS, {"cell": valid.cell}, private=True, n_clients=n_homes)
        if method.secure_threshold:
            sizes = private_statistics.sizes_of(
                vocabulary, valid, all_patterns=self._all_patterns, rooms=vocabulary.words
            )
            sums = self._sum_of_shares("counts", request, sizes, account.counts)
        else:
            answers = self.membership.ask(self._to_all(request), all_of_them=True)
            parts = [private_statistics.BoundedSums(dict(answer.arrays)) for answer in answers.values()]
            sums = reduce(operator.add, parts).noisy(account.counts, secret_normals)
        return private_statistics.statistics(vocabulary, valid, rules, sums, n_homes=n_homes)

    def _sum_of_shares(
        self, name: str, request: Message, sizes: Mapping[str, int], multiplier: float
    ) -> dict[str, NoisySum]:
        """Counts to which every node has added its share of the noise."""
        from fedrule.evidence import private_statistics

        requests = self._to_all(request)
        total, n = self._secure_sum(name, requests, sum(sizes.values())), len(requests)
        threshold = threshold_of_nodes(self.method, n)
        return private_statistics.of_shares(total, sizes, multiplier, members=n, threshold=threshold)

    def _noisy_rules(
        self, multiplier: float, n_homes: int, released: tuple[dict[str, Any], dict[str, AnyArray]] | None
    ) -> NoisySum:
        """Rules with noise, kept before any node hears which are valid: a second draw would not be in the account."""
        from datasets.common.gaussian_mechanism import secret_normals
        from datasets.private_counts import NoisySum
        from fedrule.evidence import private_statistics

        if released is not None:
            about, arrays = released
            return NoisySum(arrays["rules"], float(about["deviation"]))
        request = self.membership.request(Kind.RULES, private=True, n_clients=n_homes)
        if self.method.secure_threshold:
            sizes = {"rules": len(self.vocabulary.types) ** 2 * len(self.vocabulary.relations)}
            rules = self._sum_of_shares("rules", request, sizes, multiplier)["rules"]
        else:
            answers = self.membership.ask(self._to_all(request), all_of_them=True)
            total = np.sum([answer.array("rules") for answer in answers.values()], axis=0)
            rules = private_statistics.noisy_rules(total, multiplier, secret_normals)
        about = {"members": self._members, "deviation": rules.deviation}
        self.folder.write(RELEASED, self._run, {"rules": rules.values}, **about)
        return rules


def _members(about: Mapping[str, Any]) -> list[Member]:
    return [Member(**member) for member in about["members"]]
