"""Attention that a model of another library computed: queries and keys, from which weights follow when asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard._attention import context_of
from regard._chunks import Options
from regard._display import InNotebook, page_of
from regard._layout import Region
from regard._once import computed_once
from regard._problem import Problem, prepare
from regard.context import Attention, define
from regard.mask import Mask

__all__ = ["RecordedCall", "RecordedCalls", "expected_context", "joined"]

Array = NDArray[Any]

CHECKED = 64  # the first and the last queries of a call, so many of each, whose context is compared
MOST_JOINED = 1 << 22  # weights that are joined from the steps of a generation


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordedCall(InNotebook):
    """One call of attention in a model of another library.

    Parameters
    ----------
    queries : array (..., n, d)
        Queries.
    keys : array (..., m, d)
        Keys.
    values : array (..., m, e), optional
        Values, if they were kept.
    mask, bias, scale, softcap, sink
        As for `regard.attend`.
    name : str
        The path of the module that made the call; empty outside of modules.
    step : int
        Number of the forward pass of the model, from 1.
    error : float
        Largest distance of the model's output of this call from the context that regard computes; NaN where it can't
        be compared.
    dropout : float
        The share of weights that the model dropped; the weights here are those before.
    dtype : str
        The type in which the model computed.

    Examples
    --------
    >>> import numpy as np
    >>> call = RecordedCall(queries=np.eye(2), keys=np.eye(2), name="encoder.0", error=0.0)
    >>> call
    encoder.0: (2, 2), 2 keys, error 0e+00
    >>> call.weights.round(2)
    array([[0.67, 0.33],
           [0.33, 0.67]])
    """

    queries: Array
    keys: Array
    values: Array | None = None
    mask: Mask | None = None
    bias: Array | None = None
    scale: float | None = None
    softcap: float | None = None
    sink: ArrayLike | None = None
    name: str = ""
    step: int = 1
    error: float = np.nan
    dropout: float = 0.0
    dtype: str = "float32"

    def __repr__(self) -> str:
        return f"{self.title}: {self.queries.shape}, {self.keys.shape[-2]} keys, {self._proof}"

    @property
    def title(self) -> str:
        """The name of the module, with the number of the pass from the second on."""
        return (self.name or "attention") + (f" (pass {self.step})" if self.step > 1 else "")

    @property
    def label(self) -> str:
        """The title and the error."""
        return f"{self.title}, {self._proof}"

    @property
    def _proof(self) -> str:
        half = "" if self.dtype in ("float32", "float64") else f" in {self.dtype}"
        compared = f"error {self.error:.0e}{half}"
        return f"dropout {self.dropout:g}, not compared" if self.dropout else compared

    @property
    def pairs(self) -> int:
        """The number of weights."""
        return int(np.prod(self.queries.shape[:-1])) * int(self.keys.shape[-2])

    @property
    def attention(self) -> Attention:
        """Scores, logits and weights, and with kept values the context, by the definition."""
        kept = self.values is not None
        attention = define(self._problem(self.values if kept else np.zeros((*self.keys.shape[:-1], 1))))
        object.__setattr__(attention, "name", self.name)
        return attention if kept else attention._only(("scores", "logits", "weights", "lse"))

    @computed_once
    def weights(self) -> Array:
        """The weights (..., n, m)."""
        return self.attention.weights

    def _problem(self, values: Any) -> Problem:
        q, k, v = self.queries, self.keys, values.astype(self.keys.dtype, copy=False)
        options = self.mask, self.bias, self.scale, self.softcap, "softmax", self.sink
        return prepare(q, k, v, "scaled_dot", *options)


def expected_context(call: RecordedCall, values: Array) -> Iterator[tuple[slice, Array]]:
    """Yield the context (..., rows, e) of all queries or, of many, of the first and the last, as regard computes it.

    The kernel computes each query independently of the others (law 5), so some of them show what all of them would.
    """
    problem = call._problem(values)
    layout, options = (
        problem.layout,
        Options("scaled_dot", call.mask, call.bias, call.scale, call.softcap, "auto", 0),
    )
    if layout.n <= 2 * CHECKED:
        yield slice(0, layout.n), context_of(problem)
        return
    for rows in (slice(0, CHECKED), slice(layout.n - CHECKED, layout.n)):
        region = Region(tuple(slice(0, size) for size in layout.batch_shape), rows, slice(0, layout.m))
        block = options.restrict(layout, region, all_visible=False)
        part = RecordedCall(
            queries=call.queries[..., rows, :],
            keys=call.keys,
            sink=call.sink,
            **{name: block[name] for name in ("mask", "bias", "scale", "softcap")},
        )
        yield rows, context_of(part._problem(values))


class RecordedCalls(InNotebook, list[RecordedCall]):
    """The calls that were recorded, which a notebook shows as a page.

    Parameters
    ----------
    calls : iterable of RecordedCall
        The calls, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> RecordedCalls([RecordedCall(queries=np.eye(2), keys=np.eye(2), name="encoder.0", error=0.0)])
    1 call of attention:
      encoder.0: (2, 2), 2 keys, error 0e+00
    """

    def __init__(self, calls: Iterable[RecordedCall] = ()) -> None:
        super().__init__(calls)
        self.unseen: dict[str, str] = {}  # modules that seem to attend and recorded nothing, and why

    def __repr__(self) -> str:
        heading = f"{len(self)} call{'s' * (len(self) != 1)} of attention{':' if self else ''}"
        return "\n".join([heading, *(f"  {call!r}" for call in self), *self.notes()])

    def notes(self) -> list[str]:
        """Name the modules that recorded nothing."""
        if not self.unseen:
            return []
        many = "1 module" if len(self.unseen) == 1 else f"{len(self.unseen)} modules"
        named = "; ".join(f"{name} ({reason})" for name, reason in self.unseen.items())
        return [f"{many} called attention recorded nothing: {named}"]

    def _page(self) -> Any:
        return page_of(self) if self else None


def joined(calls: Sequence[RecordedCall]) -> list[tuple[str, RecordedCall | Array]]:
    """Return each call after its label; the steps of a generation with a cache as weights (..., all n, last m)."""
    chains: list[list[tuple[int, RecordedCall]]] = []
    of_name: dict[str, list[tuple[int, RecordedCall]]] = {}
    for call in calls:
        chain = of_name.get(call.name) if call.name else None
        first = None if chain is None else _first_key(*chain[-1], call)
        if chain is None or first is None:
            of_name[call.name] = chain = []
            chains.append(chain)
        chain.append((first or 0, call))
    return [part for chain in chains for part in _stacked(chain)]


def _first_key(first: int, before: RecordedCall, call: RecordedCall) -> int | None:
    """Return the position of a call's first key in the sequence whose keys a cache kept, None without a cache."""
    n, m, old = call.queries.shape[-2], call.keys.shape[-2], before.keys.shape[-2]
    if call.step == before.step or call.keys.shape[:-2] != before.keys.shape[:-2]:
        return None
    if (
        m == old and _differing(call.keys, before.keys) <= n
    ):  # keys of an encoder, or of a cache of fixed size
        return first if n < m or n == 1 else None
    kept = m - n
    shares = 0 < kept <= old and _differing(call.keys[..., :kept, :], before.keys[..., old - kept :, :]) == 0
    return first + old - kept if shares else None


def _differing(a: Array, b: Array) -> int:
    """Count the positions at which keys differ."""
    return int((a != b).any(axis=(*range(a.ndim - 2), -1)).sum())


def _stacked(chain: list[tuple[int, RecordedCall]]) -> list[tuple[str, RecordedCall | Array]]:
    calls = [call for _, call in chain]
    length = max(first + call.keys.shape[-2] for first, call in chain)
    queries = sum(call.queries.shape[-2] for call in calls)
    heads = calls[0].queries.shape[:-2]
    if len(calls) == 1 or int(np.prod(heads)) * queries * length > MOST_JOINED:
        return [(call.label, call) for call in calls]
    weights, row = np.ma.array(np.zeros((*heads, queries, length), np.float32), mask=True), 0
    for first, call in chain:
        n, m = call.queries.shape[-2], call.keys.shape[-2]
        weights[..., row : row + n, first : first + m] = call.attention._masked_weights()
        row += n
    worst = max(calls, key=lambda call: call.error)
    return [(f"{calls[0].name}, {len(calls)} steps, {worst._proof}", weights)]
