"""A node's part in secure sums (`fedrule.federated.secure_sum`), and what it remembers of them.

Secrets, the vector and the last answer lie in the node's folder before a message leaves. Once a node has revealed its
shares, the sum of that round, or of those counts, is known: the same vector in a sum of other nodes would give away, by
the difference of the two, what a node that is in one of them has sent. So a node notes which sums it has unmasked and
with whom, and takes part in the same one again only, which a server asks for that crashed before it could keep the sum.
As many nodes as can unmask a sum are more than half of them: no others are left that could unmask a second one.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from datasets.common.files import Json
from datasets.homes import Array
from fedrule.federated.array_file import AnyArray
from fedrule.flower.messages import NAMES, SESSION, Kind, Message, Refusal
from fedrule.flower.node_files import NodeFolder

if TYPE_CHECKING:
    from fedrule.federated.secure.messages import Session

Answer: TypeAlias = tuple[dict[str, Json], dict[str, AnyArray]]  # header and arrays
ANSWER = "answer."  # how the names of arrays begin that were sent in a step
SECRETS = ("secure", "noisy", f"noisy_{Kind.RULES}", f"noisy_{Kind.COUNTS}")  # files that nobody needs after a run


def session_of(request: Message) -> Session:
    """Of the first step of a secure sum: what the node takes part in, which is not always what a header says."""
    from fedrule.federated.secure.messages import Session  # brings the extra secure

    session = Session.from_bytes(request.array("message").tobytes())
    if session.digest != request.array(SESSION).tobytes():
        raise Refusal("a secure sum whose session is not the one in its message; the server mixes up two sums")
    return session


def earlier_answer(request: Message, folder: NodeFolder) -> Answer | None:
    """The answer that was given to a step of a secure sum before, where the request comes again.

    Keys drawn anew, or a vector masked twice, would spoil the sum or give something away. So a step before the last
    one of the same sum, or of an older sum, whose request was under way for long, is refused.
    """
    if SESSION not in request.arrays:
        return None
    if _unmasked(folder, request.text("run"))[1]:
        raise Refusal("this run is over, and this node has deleted its secrets of it; start a new run")
    found = folder.read(request.text("run"), "secure")
    if found is None:
        return None
    session, step = request.array(SESSION).tobytes().hex(), request.number("step")
    last_session, last_step = cast("tuple[str, int]", found[0]["step"])
    if session != last_session and request.real("time") < float(str(found[0]["begun"])):
        raise Refusal("a secure sum that was begun before the last one of this node; its secrets stay")
    if session != last_session or step > last_step:
        return None
    if step < last_step:
        raise Refusal(f"step {step} of a secure sum came after step {last_step}; each is taken once, in order")
    about, arrays = found
    answer = {name.removeprefix(ANSWER): a for name, a in arrays.items() if name.startswith(ANSWER)}
    return dict(cast("dict[str, Json]", about["header"])), answer


def advertise(
    request: Message, folder: NodeFolder, vector: Array, header: dict[str, Json], **public: AnyArray
) -> Answer:
    """The first step of a secure sum of `vector`, which stays here; header and `public` arrays are no secrets."""
    run, title = request.text("run"), f"round {request.number('round')}" if request.kind == Kind.ROUND else request.kind
    given = _unmasked(folder, run)[0].get(title)
    if given is not None and given[0] != _digest(vector):
        raise Refusal(
            f"this node has taken part in the sum of {_words(title)}, and is asked for another one, which would tell "
            f"more than one sum does; {RESTORE}"
        )
    about: dict[str, Json] = {"begun": request.real("time"), "sum": str(title), NAMES: _names(request, folder)}
    return _take_step(request, folder, 1, about, stored=b"", vector=vector, header=header, public=public)


def further_step(request: Message, folder: NodeFolder) -> Answer:
    """The second to the fourth step."""
    found = folder.read(request.text("run"), "secure")
    if found is None:
        raise Refusal("this node has no secrets of this sum; its folder is new")
    about = cast("dict[str, Json]", {name: found[0][name] for name in ("begun", "sum", NAMES)})
    stored, vector = found[1]["secrets"].tobytes(), found[1]["vector"]
    return _take_step(
        request, folder, request.number("step"), about, stored=stored, vector=vector, header={}, public={}
    )


def forget_secrets(folder: NodeFolder, run: str) -> None:
    """Delete what is of no use after a run; that it is over is noted before, so that nothing is given twice."""
    if folder.read(run, "secure") is not None:
        folder.write(run, "sums", {}, sums=_unmasked(folder, run)[0], over=True)
    for name in SECRETS:
        folder.file(run, name).unlink(missing_ok=True)


RESTORE = "restore the server's folder from its last state, or start a new run"


def _take_step(
    request: Message,
    folder: NodeFolder,
    step: int,
    about: dict[str, Json],  # of the sum: when the server sent the first step, what is summed, names of all nodes
    *,
    stored: bytes,
    vector: Array,
    header: dict[str, Json],
    public: dict[str, AnyArray],
) -> Answer:
    """Take a step and write its secrets, and the answer, before it is sent."""
    from fedrule.federated.secure.messages import Step, Survivors
    from fedrule.federated.secure_sum import answer  # brings the extra secure

    message = request.array("message").tobytes()
    secrets, reply = answer(message, request.number("participant"), step=Step(step), stored=stored, vector=vector)
    if step == Step.UNMASK:
        _note_unmasked(request.text("run"), folder, about, vector, Survivors.from_bytes(message).participants)
    answers = {**public, "message": np.frombuffer(reply, dtype=np.uint8)}
    kept = {f"{ANSWER}{name}": array for name, array in answers.items()}
    kept |= {"secrets": np.frombuffer(secrets, dtype=np.uint8), "vector": vector}
    place = [request.array(SESSION).tobytes().hex(), step]
    folder.write(request.text("run"), "secure", kept, step=place, header=header, **about)
    return header, answers


def _note_unmasked(
    run: str, folder: NodeFolder, about: dict[str, Json], vector: Array, survivors: tuple[int, ...]
) -> None:
    """Note with whom a sum is unmasked; refused where it was with others before."""
    title, names = str(about["sum"]), cast("dict[str, str]", about[NAMES])
    sums, _ = _unmasked(folder, run)
    everybody = " ".join(sorted(names[str(each)] for each in survivors))
    now = [_digest(vector), hashlib.sha256(everybody.encode()).hexdigest()]
    if (given := sums.get(title)) is None:
        folder.write(run, "sums", {}, sums={**sums, title: now}, over=False)
    elif given != now:
        raise Refusal(
            f"this node has unmasked the sum of {_words(title)} before, with other nodes: the difference of the two "
            f"sums would be what single nodes have sent; {RESTORE}"
        )


def _unmasked(folder: NodeFolder, run: str) -> tuple[dict[str, list[str]], bool]:
    """Digests of vector and nodes' names, for each sum that was unmasked; and whether the run is over."""
    if (found := folder.read(run, "sums")) is None:
        return {}, False
    return dict(cast("dict[str, list[str]]", found[0]["sums"])), found[0]["over"] is True


def _names(request: Message, folder: NodeFolder) -> Json:
    """The names of the nodes of a sum by participant; refused where this node has another one."""
    names, members = request.value(NAMES), session_of(request).members
    if not isinstance(names, list) or len({*map(str, names)}) != len(members) or len(names) != len(members):
        raise Refusal(
            f"a secure sum of {len(members)} nodes that are not named; the server has another version of fedrule"
        )
    found = dict(zip(map(str, members), map(str, names), strict=True))
    if found.get(str(request.number("participant"))) != folder.name:
        raise Refusal("a secure sum in which this node has another name; the server mixes up two nodes")
    return cast("Json", found)


def _digest(vector: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(vector).tobytes()).hexdigest()


def _words(title: str) -> str:
    return f"round {int(title.removeprefix('round ')) + 1}" if title.startswith("round ") else title
