"""A model file: arrays as safetensors, with the model's card in the header. Reading one never executes code.

The arrays by name:

    weights.*           the parameters of the model, float32
    valid.cell          [n_valid]       the true cells of the valid-rule tensor (paper, section 4.6)
    counts.homes        [1]             training homes
    counts.have         [n_valid]       homes with each valid rule
    counts.self_rules   [n_valid]       homes with each valid rule between a device and itself
    counts.both         [n_types ** 2]  homes that own devices of both types
    counts.*            other counts that a method needs (fedrule/models/restore.py)

Whole numbers are int64 in memory; in the file an array of them has the narrowest type that holds it. The header also
has a digest of everything: a flipped bit is an error and not a wrong recommendation. A file may come from anybody, so
that every array is checked before use.
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

from datasets.common.errors import DataError, install_hint
from datasets.common.files import atomic_file
from datasets.homes import Mask, frozen
from datasets.valid import ValidRules
from fedrule.models.card import Card

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]

MAX_BYTES = 2 << 30  # models have megabytes
DTYPES = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64))
NARROW = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))  # in the file only


@dataclass(frozen=True, slots=True, eq=False)
class SavedModel:
    """The content of a model file."""

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
        """The parameters by the names that training uses."""
        return {name.removeprefix("weights."): a for name, a in self.arrays.items() if name.startswith("weights.")}

    @property
    def valid(self) -> ValidRules:
        """The typed rules of the training homes."""
        n_types, n_relations = len(self.card.types), len(self.card.relations)
        return ValidRules.of_cells(n_types, n_relations, frozen(self.arrays["valid.cell"]))

    @property
    def self_rules(self) -> Mask:
        """[n_valid]: whether some training home has the rule between a device and itself."""
        return np.asarray(self.arrays["counts.self_rules"] > 0)

    def save(self, path: Path | str) -> None:
        """Write the file completely or not at all."""
        save = _safetensors().save
        path = Path(path)
        refuse_unwritable(path)
        text = self.card.json()
        arrays = {name: np.ascontiguousarray(_narrowed(array)) for name, array in self.arrays.items()}
        content = save(arrays, metadata={"card": text, "sha256": _digest(text, self.arrays)})
        with atomic_file(path) as temporary:
            temporary.write_bytes(_in_order(content))

    @classmethod
    def load(cls, path: Path | str) -> SavedModel:
        """Read a file; anything but a complete model is a `DataError` that names it."""
        path = Path(path)
        content = _content(path)
        try:
            metadata = _metadata(content)
            card, arrays = Card.from_json(metadata["card"]), _arrays(content)
            if metadata["sha256"] != _digest(metadata["card"], arrays):
                raise DataError("its digest does not match its content: it is damaged")
            _check_counts(card, arrays)
        except DataError as error:
            raise DataError(f"{path}: {error}; train or download it again") from None
        return cls(card, arrays)


def refuse_unwritable(path: Path) -> None:
    """Raise if no file can be written there; called before training."""
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a file, e.g. {path / 'model.safetensors'}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from None


def check_weights(weights: Mapping[str, npt.NDArray[Any]], shapes: Mapping[str, tuple[int, ...]], card: Card) -> None:
    """Raise unless these are exactly the parameters with these shapes."""
    if strange := weights.keys() - shapes.keys():
        raise DataError(f"weights.{min(strange)} is not a parameter of {card.method} with the options of its card")
    arrays = {f"weights.{name}": array for name, array in weights.items()}
    for name, shape in shapes.items():
        checked_array(arrays, f"weights.{name}", shape, np.float32)


def checked_array(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, shape: tuple[int, ...] | None, kind: type[np.generic]
) -> npt.NDArray[Any]:
    """An array of a model with this dtype and shape; any shape for None."""
    if name not in arrays:
        raise DataError(f"the model lacks {name}")
    array = arrays[name]
    if (shape is not None and array.shape != shape) or array.dtype != kind:
        expected = f"{np.dtype(kind)} of shape {shape}" if shape is not None else str(np.dtype(kind))
        raise DataError(f"{name} is {array.dtype} of shape {array.shape}, expected {expected}")
    return array


def _narrowed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers in the narrowest type that holds them all; anything else unchanged."""
    if array.dtype != np.int64 or array.min(initial=0) < 0:
        return array
    most = int(array.max(initial=0))
    return array.astype(next((kind for kind in NARROW if most < 1 << 8 * kind.itemsize), array.dtype))


def _in_order(content: bytes) -> bytes:
    """The same file with the keys of its header sorted: safetensors writes them in any order."""
    (size,) = struct.unpack("<Q", content[:8])
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + content[8 + size :]


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path}: {path.stat().st_size:,} bytes are too many for a model")
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such model; train one with `python -m fedrule train --out {path}`") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def _metadata(content: bytes) -> dict[str, str]:
    """The text entries of a safetensors header."""
    try:
        (size,) = struct.unpack("<Q", content[:8])
        found = json.loads(content[8 : 8 + size])["__metadata__"] if size <= len(content) else None
    except (struct.error, ValueError, KeyError, TypeError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in ("card", "sha256")):
        raise DataError("not a fedrule model, or truncated")
    return found


def _arrays(content: bytes) -> dict[str, npt.NDArray[Any]]:
    read = _safetensors().load
    from safetensors import SafetensorError

    try:
        arrays = read(content)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"its arrays cannot be read, it may be truncated ({error})") from None
    if sum(array.size for array in arrays.values()) > MAX_BYTES // 8:
        raise DataError("its arrays have too many numbers for a model")
    arrays = {name: array.astype(np.int64) if array.dtype in NARROW else array for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.dtype not in DTYPES:
            raise DataError(f"{name} is {array.dtype}, which no model has")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise DataError(f"{name} has NaN or infinite values")
    return arrays


def _check_counts(card: Card, arrays: Arrays) -> None:
    """Raise unless the valid rules and the counts fit the types and relations of the card."""
    n_types, n_relations = len(card.types), len(card.relations)
    cell = checked_array(arrays, "valid.cell", None, np.int64)
    if cell.ndim != 1 or np.any(cell[1:] <= cell[:-1]):
        raise DataError("valid.cell is not a sorted list of cells")
    if len(cell) and not 0 <= int(cell[0]) <= int(cell[-1]) < n_types**2 * n_relations:
        raise DataError(f"valid.cell has rules beyond {n_types} types and {n_relations} relations")
    for name, size in (("homes", 1), ("have", len(cell)), ("self_rules", len(cell)), ("both", n_types**2)):
        checked_array(arrays, f"counts.{name}", (size,), np.int64)


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
        raise DataError(f"a model file needs {install_hint('infer')}") from None
