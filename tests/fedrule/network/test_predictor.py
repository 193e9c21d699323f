"""Logits of triples in chunks against the formula written out: values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="the network needs the extra graph")
pytest.importorskip("torch_geometric", reason="the network needs the extra graph")

import torch
from torch import Tensor
from torch.nn.functional import relu

from fedrule.network import triple_logits as triples
from fedrule.network.encoders import Sizes
from fedrule.network.network import Network
from fedrule.network.triple_logits import Predictor, triple_logits

Triples = tuple[Tensor, Tensor, Tensor]


def plain(predictor: Predictor, trigger: Tensor, action: Tensor, relation: Tensor) -> Tensor:
    """y = w_r . ReLU(phi^1 [z_i ; z_j] + b) + b_r with one row of hidden units for each triple."""
    inputs = torch.cat([predictor.z[trigger], predictor.z[action]], dim=1)
    hidden = relu(inputs @ predictor.first + predictor.first_bias)
    return (hidden * predictor.relation[relation]).sum(dim=1) + predictor.relation_bias[relation]


def made(
    seed: int, n: int, *, devices: int, dim: int, units: int, relations: int, dtype: torch.dtype = torch.float64
) -> tuple[Predictor, Triples]:
    rng = np.random.default_rng(seed)
    shapes = (devices, dim), (2 * dim, units), (units,), (relations, units), (relations,)
    parts = (torch.tensor(rng.normal(size=shape), dtype=dtype, requires_grad=True) for shape in shapes)
    trigger, action, relation = (torch.tensor(rng.integers(0, many, n)) for many in (devices, devices, relations))
    return Predictor(*parts), (trigger, action, relation)


def gradients(logits: Tensor, predictor: Predictor) -> tuple[Tensor, ...]:
    """Of a sum in which no two triples weigh the same."""
    weight = torch.linspace(-1, 2, len(logits), dtype=logits.dtype)
    return torch.autograd.grad((logits * weight).sum(), predictor)


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 60),
    devices=st.integers(1, 12),
    dim=st.integers(1, 4),
    units=st.integers(1, 7),
    relations=st.integers(1, 9),
    cells=st.integers(1, 100),
)
def test_chunks_of_any_size_give_the_values_and_gradients_of_the_formula(
    seed: int, n: int, devices: int, dim: int, units: int, relations: int, cells: int
) -> None:
    predictor, asked = made(seed, n, devices=devices, dim=dim, units=units, relations=relations)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triples, "CELLS", cells)
        logits = triple_logits(predictor, *asked)
        found = gradients(logits, predictor)
    expected = plain(predictor, *asked)
    torch.testing.assert_close(logits, expected)
    for one, other in zip(found, gradients(expected, predictor), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_number_type_of_the_parameters_is_kept_over_several_chunks(dtype: torch.dtype) -> None:
    # 2^18 cells / 40 units = 6,553 triples in a chunk, so that 20,000 are four chunks.
    predictor, asked = made(0, 20_000, devices=300, dim=8, units=40, relations=30, dtype=dtype)
    logits, expected = triple_logits(predictor, *asked), plain(predictor, *asked)
    assert logits.dtype == dtype
    torch.testing.assert_close(logits, expected)
    for one, other in zip(gradients(logits, predictor), gradients(expected, predictor), strict=True):
        assert one.dtype == dtype
        # Sums over 20,000 triples in another order: in float32 a few millionths of the largest part.
        torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-5 * float(other.abs().max()))


def test_one_triple_by_hand() -> None:
    # z = 2, 3; inputs [2 ; 3]; hidden = ReLU([2 * 1 + 3 * 1 - 1, 2 * 1 - 3 * 1 - 1]) = [4, 0]; y = 4 * 5 + 0 * 7 + 0.5.
    parts = [[2.0], [3.0]], [[1.0, 1.0], [1.0, -1.0]], [-1.0, -1.0], [[9.0, 9.0], [5.0, 7.0]], [8.0, 0.5]
    predictor = Predictor(*(torch.tensor(part, requires_grad=True) for part in parts))
    logits = triple_logits(predictor, torch.tensor([0]), torch.tensor([1]), torch.tensor([1]))
    assert logits.tolist() == [20.5]
    # Only the first unit is open: 5 reaches it, and from there 5 * 1 each device; a weight gets 5 times its input.
    z, first, first_bias, relation, relation_bias = torch.autograd.grad(logits.sum(), predictor)
    assert z.tolist() == [[5.0], [5.0]]
    assert first.tolist() == [[10.0, 0.0], [15.0, 0.0]]
    assert first_bias.tolist() == [5.0, 0.0]
    assert relation.tolist() == [[0.0, 0.0], [4.0, 0.0]]
    assert relation_bias.tolist() == [0.0, 1.0]


def test_gradients_are_those_of_finite_differences() -> None:
    predictor, asked = made(1, 9, devices=4, dim=2, units=3, relations=4)
    assert torch.autograd.gradcheck(lambda *parts: triple_logits(Predictor(*parts), *asked), tuple(predictor))


def test_no_triple_has_no_logit_and_moves_nothing() -> None:
    predictor, asked = made(2, 0, devices=3, dim=2, units=4, relations=5)
    logits = triple_logits(predictor, *asked)
    assert logits.shape == (0,)
    assert all(not part.any() for part in torch.autograd.grad(logits.sum(), predictor))


def test_the_same_triples_give_the_same_bits() -> None:
    predictor, asked = made(3, 5_000, devices=40, dim=8, units=163, relations=50, dtype=torch.float32)
    once, again = (gradients(triple_logits(predictor, *asked), predictor) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(once, again, strict=True))


def test_gradients_of_functions_are_the_same_as_those_of_tensors() -> None:
    predictor, asked = made(4, 30, devices=4, dim=2, units=3, relations=4)
    one = torch.func.grad(lambda parts: triple_logits(Predictor(*parts), *asked).square().sum())(tuple(predictor))
    other = torch.autograd.grad(plain(predictor, *asked).square().sum(), predictor)
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("predictor_hidden", [0, 3])
def test_the_network_gives_single_relations_the_logits_that_it_gives_all_of_them(predictor_hidden: int) -> None:
    network = Network(Sizes(n_types=3, n_relations=5, hidden=4), predictor_hidden=predictor_hidden)
    generator = torch.Generator().manual_seed(0)
    parameters = {name: value.double() for name, value in network.initial(generator).items()}
    z = torch.rand(6, 4, generator=generator, dtype=torch.float64)
    trigger, action, relation = (torch.randint(0, many, (50,), generator=generator) for many in (6, 6, 5))
    of_all = network.logits(parameters, z, trigger, action)
    single = network.logits_of(parameters, z, trigger, action, relation)
    torch.testing.assert_close(single, of_all.gather(1, relation[:, None])[:, 0])
