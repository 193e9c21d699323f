"""A run of a federation at its server: from the nodes that join to the model.

The model is that of the simulation, bit for bit, with the same clients missing; a run that is private draws its cohorts
and its noise by secrets and cannot be computed again. All that has to survive a crash is in the server's folder, with a
checkpoint after every round before any node hears of the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

import numpy as np

from datasets.common.environment import versions
from datasets.common.files import Json
from datasets.homes import Array
from fedrule.federated.array_file import AnyArray
from fedrule.federated.checkpoint import Checkpoint
from fedrule.federated.loop import run_rounds
from fedrule.federated.rounds import RoundReport
from fedrule.federated.vectors import FlatParameters, Vector
from fedrule.flower.messages import SETUP, Identity, Kind, Message, package_version
from fedrule.flower.method import check_deployment, federated_method, layout_text, method_text
from fedrule.flower.server.folder import CHECKPOINT, MODEL, WEIGHTS, ServerFolder, missing_of
from fedrule.flower.server.membership import Membership, ServerOptions, Transport
from fedrule.flower.server.rounds import NodeRounds, RoundTraffic
from fedrule.flower.server.setup import HomeCounts, Setup
from fedrule.flower.vocabulary import Vocabulary
from fedrule.lazy import torch
from fedrule.methods.federated import Federated
from fedrule.network.score import GraphModel

OnRound = Callable[[int, RoundReport, RoundTraffic], None]


@dataclass(eq=False)
class Federation:
    """One run: nodes, setup and rounds."""

    transport: Transport
    method: Federated
    vocabulary: Vocabulary
    options: ServerOptions
    membership: Membership = field(init=False)
    sampling_seed: int | None = field(init=False)  # of the cohorts of a private run, a secret

    def __post_init__(self) -> None:
        text = method_text(self.method.NAME, asdict(self.method))
        federated_method(text)  # refuses what nodes would refuse
        check_deployment(self.method, self.options.nodes)
        names = self.folder.begin(self._configuration, private=self.method.privacy.noisy)
        self.sampling_seed = names.sampling_seed
        identity = Identity(names.run, self.vocabulary.fingerprint, text)
        self.membership = Membership(self.transport, self.options, identity)

    @property
    def folder(self) -> ServerFolder:
        return ServerFolder(self.options.folder)

    @property
    def run(self) -> str:
        """Its name."""
        return self.membership.identity.run

    @property
    def _configuration(self) -> dict[str, object]:
        """What must be equal where a run is resumed."""
        return {
            "method": self.method.NAME,
            "parameters": asdict(self.method),
            "vocabulary": self.vocabulary.fingerprint,
            "seed": self.options.seed,
        }

    def train(self, on_round: OnRound | None = None) -> GraphModel:
        """The model after all rounds, resumed where the server was stopped."""
        method, folder = self.method, self.folder
        folder.write_status("starting")
        setup = HomeCounts(method, self.vocabulary, self.membership, folder).setup()
        scorer = method.scorer(setup.valid, setup.counts if method.counts_homes else None)
        rng = np.random.default_rng(self.options.seed)
        seed = int(rng.integers(2**62))  # as `Federated.fit` draws it
        initial = scorer.initial(torch.Generator().manual_seed(seed))
        layout = FlatParameters.of(initial)
        engine = method.engine()
        rounds = NodeRounds(
            method,
            engine,
            layout,
            self.membership,
            setup.with_rules,
            seed if self.sampling_seed is None else self.sampling_seed,
            self._setup_of_nodes(setup, layout, seed),
        )
        state = engine.begin_server(layout, layout.flat(initial), len(setup.with_rules))
        checkpoint = Checkpoint(folder.path / CHECKPOINT, 1, configuration={"run": self.run, **self._configuration})
        joined: list[Json] = [*self.membership.connected]
        folder.write_status("rounds", joined=joined, wanted=len(self.membership.members))

        def after_round(done: int, model: Vector, report: RoundReport) -> bool:  # noqa: ARG001
            folder.record_round({"round": done, **report.values(), **rounds.traffic.as_json()})
            if on_round is not None:
                on_round(done, report, rounds.traffic)
            return False

        model = run_rounds(rounds.step, method.schedule(seed), state, after_round, checkpoint)
        names = self.vocabulary.types, self.vocabulary.relations
        fitted = GraphModel(method.NAME, scorer, layout.parameters(model), *names)
        self._save_model(fitted, setup)
        rounds.end()
        folder.forget_sums()
        folder.write_status("done")
        return fitted

    def missing(self) -> dict[int, Array]:
        """Clients that dropped out because their node did not answer, by rounds done before."""
        return missing_of(self.options.folder)

    def _setup_of_nodes(self, setup: Setup, layout: FlatParameters, seed: int) -> Message:
        """What all clients have to know, but the number of a node's first one. A node keeps it and takes no other one.

        Nodes scale their noise by the numbers of clients and of nodes.
        """
        arrays: dict[str, AnyArray] = {f"{SETUP}cell": setup.valid.cell}
        if self.method.counts_homes:
            sums = setup.counts.arrays(all_patterns=self.method.evidence > 0)
            arrays |= {f"{SETUP}{name}": array.astype(np.int32) for name, array in sums.items()}
        return Message(
            Kind.ROUND,
            {
                "seed": seed,
                "self_pairs": setup.self_pairs,
                "layout": layout_text(layout),
                "n_clients": self.method.engine().n_clients(setup.with_rules),
                "nodes": len(self.membership.members),
            },
            arrays,
        )

    def _save_model(self, fitted: GraphModel, setup: Setup) -> None:
        """Write the model for `python -m fedrule recommend`, with what the server may know of its training.

        Of a private run the card names neither a seed nor homes, and a method that counts nothing has counts of 0.
        """
        from fedrule.models.card import TrainingRun
        from fedrule.models.restore import saved_model

        private = self.method.privacy.noisy
        training = TrainingRun(
            data="federation",
            fingerprint=None if private else self.run,
            homes=len(setup.with_rules),
            rules=None if private else int(setup.counts.with_rule.sum()),
            seed=None if private else self.options.seed,
            rounds=self.method.rounds,
            trained_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        saved = saved_model(
            fitted,
            self.method,
            setup.counts,
            trainings=(training,),
            versions={"fedrule": package_version(), **versions()},
        )
        saved.save(self.folder.path / MODEL)
        arrays = {name: value.numpy() for name, value in fitted.parameters.items()}
        about = {"method": self.membership.identity.method}
        self.folder.write(WEIGHTS, self.run, {**arrays, "valid.cell": setup.valid.cell}, **about)
