"""The hidden layer of the evidence network with a gradient of its own."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx


class HiddenLayer(torch.autograd.Function):
    """f direct + dropout(relu(f first + first_bias)) last, with the gradients of all but the features f.

    Written out, it passes over the hidden layer half as often as autograd does.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        features: Tensor,  # [n, n_features]
        direct: Tensor,  # [n_features]
        first: Tensor,  # [n_features, hidden]
        first_bias: Tensor,  # [hidden]
        last: Tensor,  # [hidden]
        kept: Tensor | None,  # [n, hidden]  by dropout; None: all
        share: float,  # of units that are kept
    ) -> Tensor:
        hidden = torch.addmm(first_bias, features, first).relu_()
        if kept is not None:
            hidden.mul_(kept)
        ctx.save_for_backward(features, hidden, last)
        ctx.share = share  # type: ignore[attr-defined]
        return torch.addmv(features @ direct, hidden, last, alpha=1 / share)

    @staticmethod
    def backward(ctx: FunctionCtx, d_logits: Tensor) -> tuple[Tensor | None, ...]:
        features, hidden, last = ctx.saved_tensors  # type: ignore[attr-defined]
        share: float = ctx.share  # type: ignore[attr-defined]
        d_hidden = torch.outer(d_logits, last / share).mul_(hidden > 0)
        d_last = d_logits @ hidden / share
        return None, d_logits @ features, features.T @ d_hidden, d_hidden.sum(0), d_last, None, None
