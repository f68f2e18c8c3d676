"""The graph convolutional network of paper 000: H^k = sigma(A H^{k-1} W^k), no bias.

Written by hand rather than with autograd so that it is Algorithms 1 and 2 to the letter: layer k
exchanges rows of d_{k-1} columns forward and of d_k columns backward, in every layer, hence
``volume * sum_k (d_{k-1} + d_k)`` words per epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from plancc_runtime.clock import Clock
from plancc_runtime.layouts.row import RowLayout

# name -> (apply in place, multiply a gradient in place with sigma'(Z), given H = sigma(Z))
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], object], Callable[[Tensor, Tensor], object]]] = {
    "relu": (torch.relu_, lambda g, h: g.masked_fill_(h <= 0, 0)),
    "tanh": (torch.tanh_, lambda g, h: g.mul_(1 - h * h)),
    "sigmoid": (torch.sigmoid_, lambda g, h: g.mul_(h * (1 - h))),
    "none": (lambda z: z, lambda g, h: g),
}


def glorot_weights(dims: Sequence[int], seed: int) -> list[np.ndarray]:
    """Initial weights W^1..W^L, float64[d_{k-1}, d_k], uniform in +-sqrt(6 / (d_{k-1} + d_k)).

    They depend on `dims` and `seed` only, so all ranks draw the same.
    """
    random = np.random.default_rng(seed)
    return [random.uniform(-1, 1, (a, b)) * np.sqrt(6 / (a + b)) for a, b in pairwise(dims)]


class GCN:
    """L layers over distributed matrices; weights replicated.

    Parameters
    ----------
    layouts : sequence of RowLayout
        One per layer, with the same rows; layers may share one, and then its buffers.
    weights : list of Tensor[d_{k-1}, d_k]
        W^1..W^L, of the layouts' dtype; shared with the caller, who updates them.
    activation : str
        A name in `ACTIVATIONS`; applied between layers, not after the last.
    clock : Clock
        Gets the time of "dense".
    """

    def __init__(
        self,
        layouts: Sequence[RowLayout],
        weights: list[Tensor],
        activation: str,
        clock: Clock,
    ) -> None:
        self.weights = weights
        self._layouts = layouts
        self._activate, self._chain = ACTIVATIONS[activation]
        self._clock = clock
        products = {(x, d) for x, w in zip(layouts, weights, strict=True) for d in w.shape}
        self._buffers = {(layout, d): layout.buffers(d) for layout, d in products}
        self._products = {d: self._rows(d) for _, d in products}  # A H and A^T G, one at a time
        self._outputs = [self._rows(w.shape[1]) for w in weights]  # H^1..H^L

    def forward(self, features: Tensor) -> Tensor:
        """H^L from H^0 (Algorithm 1). Collective.

        Parameters
        ----------
        features : Tensor[num_rows, d_0]

        Returns
        -------
        Tensor[num_rows, d_L]
            Overwritten by the next call.
        """
        self._inputs = [features, *self._outputs[:-1]]  # H^0..H^{L-1}
        for k, (h, w, z) in enumerate(zip(self._inputs, self.weights, self._outputs, strict=True)):
            layout, width = self._layouts[k], h.shape[1]
            product = self._products[width]
            layout.forward(h, product, self._buffers[layout, width])
            with self._clock("dense"):
                torch.mm(product, w, out=z)
                if k < len(self.weights) - 1:
                    self._activate(z)
        return self._outputs[-1]

    def backward(self, g: Tensor) -> list[Tensor]:
        """This rank's weight gradients, to be summed over ranks (Algorithm 2, lines 3-12).

        Collective; follows `forward`.

        Parameters
        ----------
        g : Tensor[num_rows, d_L]
            G^L, the gradient of the loss with respect to H^L = Z^L.

        Returns
        -------
        list of Tensor[d_{k-1}, d_k]
            Delta W_m^k for k = 1..L.
        """
        gradients: list[Tensor] = []
        for k in reversed(range(len(self.weights))):
            layout, width = self._layouts[k], g.shape[1]
            s = self._products[width]
            layout.adjoint(g, s, self._buffers[layout, width])
            with self._clock("dense"):
                gradients.append(self._inputs[k].T @ s)  # Equation 4
                if k > 0:
                    g = s @ self.weights[k].T  # Equation 3
                    self._chain(g, self._inputs[k])
        return gradients[::-1]

    def _rows(self, width: int) -> Tensor:
        return torch.empty(self._layouts[0].num_rows, width, dtype=self._layouts[0].dtype)
