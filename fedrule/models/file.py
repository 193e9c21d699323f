"""A model is one file: numbers as safetensors, and a JSON card in its header. Reading one never executes code.

The arrays, by name:

    weights.*           the parameters of the network and of its terms, float32
    valid.cell          [n_valid]       the true cells of the valid-rule tensor (paper, section 4.6)
    counts.homes        [1]             homes that were counted
    counts.have         [n_valid]       homes that have each valid rule
    counts.itself       [n_valid]       homes that have each valid rule with one device on both sides
    counts.both         [n_types ** 2]  homes that own devices of both types
    counts.*            what else a method counts over homes (fedrule/evidence/statistics.py)

A digest of everything is in the header too: a flipped bit is an error and not a strange recommendation.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from datasets.common.files import atomic_file
from datasets.homes import Mask, frozen
from datasets.valid import ValidRules
from fedrule.models.card import Card

# --- Whether the arrays of a model have the shapes that its method and its words ask for; needs no torch.
#
# A file may come from anybody. Each array that is used is looked at here first, so that a wrong one is an error that
# names it and not a strange score.


def refuse_misfits(weights: Mapping[str, npt.NDArray[Any]], shapes: Mapping[str, tuple[int, ...]], card: Card) -> None:
    """Raise unless these are the parameters, by the names that training has for them, each of its shape."""
    if strange := weights.keys() - shapes.keys():
        raise DataError(f"weights.{min(strange)} is no parameter of {card.method} with the options of its card")
    arrays = {f"weights.{name}": array for name, array in weights.items()}
    for name, shape in shapes.items():
        fitting_array(arrays, f"weights.{name}", shape, np.float32)


def fitting_array(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, shape: tuple[int, ...] | None, kind: type[np.generic]
) -> npt.NDArray[Any]:
    """An array of a model, of this kind and shape; any shape for None."""
    if name not in arrays:
        raise DataError(f"the model lacks {name}")
    array = arrays[name]
    if (shape is not None and array.shape != shape) or array.dtype != kind:
        expected = f"{np.dtype(kind)} of shape {shape}" if shape is not None else str(np.dtype(kind))
        raise DataError(f"{name} is {array.dtype} of shape {array.shape}, and {expected} is expected")
    return array


Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]

MOST_BYTES = 2 << 30  # bytes of a file that is still read; models have megabytes
KINDS = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class SavedModel:
    """What is in a model file."""

    card: Card
    arrays: Arrays

    def __repr__(self) -> str:
        return f"<SavedModel of {self.card.method}: {len(self.valid):,} valid rules, {self.digest[:12]}>"

    @property
    def digest(self) -> str:
        """64 hex digits that change with any number or word of the model."""
        return _digest(self.card.json(), self.arrays)

    @property
    def weights(self) -> dict[str, npt.NDArray[np.float32]]:
        """The parameters by the names that training has for them."""
        return {name.removeprefix("weights."): a for name, a in self.arrays.items() if name.startswith("weights.")}

    @property
    def valid(self) -> ValidRules:
        """The typed rules that some training home had."""
        n_types, n_relations = len(self.card.types), len(self.card.relations)
        return ValidRules.of_cells(n_types, n_relations, frozen(self.arrays["valid.cell"]))

    @property
    def itself(self) -> Mask:
        """[n_valid]: whether some home has a valid rule by which a device acts on itself."""
        return np.asarray(self.arrays["counts.itself"] > 0)

    def save(self, path: Path | str) -> None:
        """Write the file as a whole or not at all."""
        save = _safetensors().save
        path = Path(path)
        refuse_unwritable(path)
        text = self.card.json()
        arrays = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        content = save(arrays, metadata={"card": text, "sha256": _digest(text, arrays)})
        with atomic_file(path) as temporary:
            temporary.write_bytes(_in_order(content))

    @classmethod
    def load(cls, path: Path | str) -> SavedModel:
        """Read a file; anything but a whole model of ours is a `DataError` that names it."""
        path = Path(path)
        content = _content(path)
        try:
            metadata = _metadata(content)
            card, arrays = Card.from_json(metadata["card"]), _arrays(content)
            if metadata["sha256"] != _digest(metadata["card"], arrays):
                raise DataError("its digest is another than that of its content, so it is damaged")
            _refuse_misfits(card, arrays)
        except DataError as error:
            raise DataError(f"{path}: {error}; train it again or fetch it anew") from None
        return cls(card, arrays)


def refuse_unwritable(path: Path) -> None:
    """Raise where no model can be written; asked before the work that makes one."""
    if path.is_dir():
        raise DataError(f"{path}: it is a folder; name a file, e.g. {path / 'model.safetensors'}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise DataError(f"{path}: nothing can be written there ({error.strerror})") from None


def _in_order(content: bytes) -> bytes:
    """The same file with the names of its header sorted: safetensors writes them in any order."""
    (size,) = struct.unpack("<Q", content[:8])
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + content[8 + size :]


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path}: {path.stat().st_size:,} bytes are no model; models have megabytes")
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such model; make one with `python -m fedrule train --out {path}`") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def _metadata(content: bytes) -> dict[str, str]:
    """What the header of a safetensors file keeps as text; nothing but JSON is read."""
    try:
        (size,) = struct.unpack("<Q", content[:8])
        found = json.loads(content[8 : 8 + size])["__metadata__"] if size <= len(content) else None
    except (struct.error, ValueError, KeyError, TypeError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in ("card", "sha256")):
        raise DataError("it is no model of fedrule, or the beginning of one that was cut off")
    return found


def _arrays(content: bytes) -> dict[str, npt.NDArray[Any]]:
    read = _safetensors().load
    from safetensors import SafetensorError

    try:
        arrays = read(content)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"its numbers cannot be read, it may have been cut off ({error})") from None
    for name, array in arrays.items():
        if array.dtype not in KINDS:
            raise DataError(f"{name} holds {array.dtype}, which no model has")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise DataError(f"{name} holds what is no finite number")
    return dict(arrays)


def _refuse_misfits(card: Card, arrays: Arrays) -> None:
    """Numbers that would name a type or a relation which the card does not have."""
    n_types, n_relations = len(card.types), len(card.relations)
    cell = fitting_array(arrays, "valid.cell", None, np.int64)
    if cell.ndim != 1 or np.any(cell[1:] <= cell[:-1]):
        raise DataError("valid.cell is no sorted list of cells")
    if len(cell) and not 0 <= int(cell[0]) <= int(cell[-1]) < n_types**2 * n_relations:
        raise DataError(f"valid.cell names rules beyond {n_types} types and {n_relations} relations")
    for name, size in (
        ("counts.homes", 1),
        ("counts.have", len(cell)),
        ("counts.itself", len(cell)),
        ("counts.both", n_types**2),
    ):
        fitting_array(arrays, name, (size,), np.int64)


def _digest(card: str, arrays: Arrays) -> str:
    whole = hashlib.sha256(card.encode())
    for name in sorted(arrays):
        array = arrays[name]
        whole.update(f"\0{name} {array.dtype.str} {array.shape}\0".encode())
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()


def _safetensors() -> ModuleType:
    try:
        return importlib.import_module("safetensors.numpy")
    except ModuleNotFoundError:
        raise DataError('a model file needs safetensors: pip install "fedrule[infer]"') from None
