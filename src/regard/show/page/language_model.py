"""The language model of letters, computed as its script does: what it reads of a text, its weights, what comes next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import nn
from regard.context import attend
from regard.mask import causal
from regard.position import rotary
from regard.show.page.section import unpacked

__all__ = ["Prediction", "parameters", "predicted", "readable_letters"]

Array = NDArray[np.float64]
Data = Mapping[str, Any]  # of assets/letters.json


class Prediction(NamedTuple):
    """The n letters that were read, the logit of each letter to come next, and weights (layers, heads, n, n)."""

    read: str
    logits: Array
    weights: Array


def readable_letters(data: Data, text: str) -> str:
    """Return the letters of a text that the model knows, the last ones if there are more than it has learned from."""
    return "".join(letter for letter in text if letter in data["letters"])[-data["length"] :]


def parameters(data: Data) -> dict[str, Array]:
    """Return the arrays, which are kept as numbers of 8 bits, one after the other; each has a scale."""
    sizes = [int(np.prod(shape)) for _, shape, _ in data["arrays"]]
    parts = np.split(unpacked(data["weights"]).astype(np.float64), np.cumsum(sizes)[:-1])
    return {
        name: part.reshape(shape) * scale
        for (name, shape, scale), part in zip(data["arrays"], parts, strict=True)
    }


def predicted(data: Data, text: str) -> Prediction:
    """Predict the letter after a text, of which at least one letter is known."""
    p, read, all_weights = parameters(data), readable_letters(data, text), []
    x = p["table"][[data["letters"].index(letter) for letter in read]]
    for i in range(data["layers"]):
        x, weights = _layer(x, partial(_of_layer, p, i), data["heads"])
        all_weights.append(weights)
    return Prediction(read, nn.rms_norm(x, p["gain"])[0][-1] @ p["table"].T, np.array(all_weights))


def _of_layer(p: Mapping[str, Array], layer: int, name: str) -> Array:
    return p[f"{layer} {name}"]


def _layer(x: Array, of: Callable[[str], Array], heads: int) -> tuple[Array, Array]:
    """Return the vectors (n, w) after a layer, and the weights of its heads."""
    y, _ = nn.rms_norm(x, of("attention gain"))
    queries, keys, values = (nn.split_heads(y @ of(name), heads)[0] for name in ("query", "key", "value"))
    attention = attend(rotary(queries), rotary(keys), values, mask=causal())
    x = x + nn.merge_heads(attention.context)[0] @ of("output")
    y, _ = nn.rms_norm(x, of("hidden gain"))
    return x + nn.perceptron(y, *map(of, ("up", "up bias", "down", "down bias")))[0], attention.weights
