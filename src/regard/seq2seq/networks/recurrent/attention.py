"""How the decoder looks at the source: the score functions and windows by name, coverage, and the looks of one pass.

Letters: T words of the source, B sentences, k hypotheses, D decoder state, C annotation, A compared size. ::

    additive, concat   v . tanh(s Wq + h Wk)        Bahdanau 2014, A.1.2; Luong 2015, 3.1
    general            (s Wq) . h                   Luong 2015, 3.1
    dot                s . h                        the same; D must be C
    scaled_dot         (s Wq) . (h Wk) / sqrt(A)    Vaswani 2017, eq. 1
    cosine             10 cos(s Wq, h Wk)           Graves 2014, eq. 5 and 6
    gaussian           -|s Wq - h Wk|^2 / 2         Nadaraya 1964; Watson 1964
    location           (s W)_j                      Luong 2015, 3.1: what stands at j is not looked at

The window is "global", "local-m" (places near the target's own) or "local-p" (near a predicted place; Luong 2015, 3.2).
With coverage, what has been looked at so far is added to the keys (Tu et al. 2016, "Modeling Coverage", eq. 5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import scores
from regard._layout import as_rows
from regard.attention import attention_vjp
from regard.context import attend
from regard.mask import lengths as seen_lengths
from regard.seq2seq.networks.padding import beside_identity
from regard.weights import local_p

if TYPE_CHECKING:
    from regard.seq2seq.networks.recurrent.network import Recurrent

__all__ = ["SCORES", "WINDOWS", "Encoded", "Looks", "glance", "shapes"]

Array = NDArray[Any]
Named = dict[str, Array]

SCORES = ("additive", "concat", "general", "dot", "scaled_dot", "cosine", "gaussian", "location")
WINDOWS = ("global", "local-m", "local-p")
_SHARPNESS = 10.0  # of the cosine: between -1 and 1 a softmax could not choose


class Encoded(NamedTuple):
    """What the decoder gets to see of some source sentences; their gradients have the same form.

    Parameters
    ----------
    start : array (B, S)
        The decoder's first states, all layers side by side.
    keys : array (B, T, A)
        The annotations, projected once for the looks of all steps.
    values : array (B, T, C)
        The annotations.
    final : array (B, C)
        Where both directions end: all that a decoder without attention sees.
    lengths : integer array (B,)
        Words of each source; what lies behind is never seen.
    """

    start: Array
    keys: Array
    values: Array
    final: Array
    lengths: NDArray[np.int64]

    def keep(self, sentences: NDArray[np.int64]) -> Encoded:
        """Return what belongs to these sentences."""
        return Encoded(*(part[sentences] for part in self))


def projects_keys(c: Recurrent) -> bool:
    """Say whether annotations are projected before they are compared."""
    return c.score in ("additive", "concat", "scaled_dot", "cosine", "gaussian")


def shapes(c: Recurrent) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parameters that looking takes.

    Parameters
    ----------
    c : Recurrent
        The configuration.

    Returns
    -------
    dict of str to tuple of int
        Empty without attention.

    Examples
    --------
    >>> from regard.seq2seq.networks.recurrent.network import Recurrent
    >>> shapes(Recurrent(9, 7, embedding=4, encoder=3, decoder=5, attention=2))["key_weight"]
    (6, 2)
    """
    if not c.attends:
        return {}
    a, d, size = c.attention, c.decoder, 2 * c.encoder
    found: dict[str, tuple[int, ...]] = {}
    if projects_keys(c):
        found |= {"key_weight": (size, a), "query_weight": (d, a)}
    if c.score in ("additive", "concat"):
        found["attention_vector"] = (a,)
    if c.score == "general":
        found["query_weight"] = (d, size)
    if c.score == "location":
        found["location_weight"] = (d, c.places)
    if c.window == "local-p":
        found |= {"place_weight": (d, a), "place_vector": (a,)}
    if c.coverage:
        found["coverage_vector"] = (a,)
    return found


class _Question(NamedTuple):
    """What attention is asked: queries (B, k, A), keys (B, T, A), options."""

    queries: Array
    keys: Array
    options: dict[str, Any]


def _ask(
    p: Mapping[str, Array], c: Recurrent, encoded: Encoded, states: Array, place: int, coverage: Array | None
) -> _Question:
    """Put the question of states (B, k, D) that are about to write the word at `place`."""
    queries = states @ p["query_weight"] if "query_weight" in p else states
    keys = encoded.keys
    if coverage is not None:
        keys = keys + coverage[..., None] * p["coverage_vector"]
    options: dict[str, Any] = {
        "score": _score(p, c, encoded.values.shape[1]),
        "mask": _mask(c, encoded, place),
    }
    if c.window == "local-p":
        options["normalize"] = local_p(_places(p, encoded, states)[0], c.reach)
    return _Question(queries, keys, options)


def _score(p: Mapping[str, Array], c: Recurrent, length: int) -> Any:
    if c.score in ("additive", "concat"):
        return scores.additive(None, None, p["attention_vector"])
    if c.score == "location":
        # A source that is longer than any in training has its last words at one place.
        return scores.location(p["location_weight"][:, _columns(c, length)])
    return {
        "general": scores.dot(),
        "dot": scores.dot(),
        "scaled_dot": scores.scaled_dot(),
        "cosine": scores.cosine(_SHARPNESS),
        "gaussian": scores.gaussian(),
    }[c.score]


def _columns(c: Recurrent, length: int) -> NDArray[np.int64]:
    return np.minimum(np.arange(length), c.places - 1)


def _mask(c: Recurrent, encoded: Encoded, place: int) -> Any:
    """Say what may be seen: no padding, and near the target's place only where the window is local-m."""
    length = encoded.values.shape[1]
    if c.window == "local-m":
        # The window of a target that is much longer than its source stays at the source's end.
        middle = np.minimum(place, encoded.lengths - 1)[:, None]
        near = np.abs(np.arange(length) - middle) <= c.reach
        return (near & (np.arange(length) < encoded.lengths[:, None]))[:, None]  # (B, 1, T)
    return None if (encoded.lengths == length).all() else seen_lengths(encoded.lengths)


def _places(
    p: Mapping[str, Array], encoded: Encoded, states: Array
) -> tuple[Array, Callable[[Array], tuple[Array, Named]]]:
    """Predict where states (B, k, D) look: (B, k), between 0 and the source's length (Luong 2015, eq. 9)."""
    hidden = np.tanh(states @ p["place_weight"])  # (B, k, A)
    share = 0.5 + 0.5 * np.tanh(0.5 * (hidden @ p["place_vector"]))  # the logistic function
    length = encoded.lengths[:, None].astype(states.dtype)

    def pullback(dplaces: Array) -> tuple[Array, Named]:
        doutput = dplaces * length * share * (1 - share)  # (B, k)
        dhidden = doutput[..., None] * p["place_vector"] * (1 - hidden * hidden)
        return dhidden @ p["place_weight"].T, {
            "place_weight": as_rows(states).T @ as_rows(dhidden),
            "place_vector": doutput.reshape(-1) @ as_rows(hidden),
        }

    return length * share, pullback


def glance(
    p: Mapping[str, Array],
    c: Recurrent,
    encoded: Encoded,
    states: Array,
    place: int,
    coverage: Array | None = None,
) -> tuple[Array, Array]:
    """Look once, for a search.

    Parameters
    ----------
    p : mapping of str to array
        The network's parameters.
    c : Recurrent
        Its configuration.
    encoded : Encoded
        The sources.
    states : array (B, k, D)
        Who looks: k hypotheses of each sentence are k queries to the same keys.
    place : int
        Which word of the target is about to be written, counted from 0.
    coverage : array (B, k, T), optional
        How much each word has been looked at; for a network with coverage.

    Returns
    -------
    contexts : array (B, k, C)
        What is seen; where the encoder ended without attention.
    weights : array (B, k, T)
        Where; (B, k, 0) without attention.

    Examples
    --------
    >>> from regard.seq2seq.networks.recurrent.network import Recurrent, RecurrentNetwork
    >>> c = Recurrent(9, 7, embedding=4, encoder=3, decoder=5, attention=2)
    >>> parts = map(np.zeros, ((1, 5), (1, 3, 2), (1, 3, 6), (1, 6)))
    >>> encoded = Encoded(*parts, np.array([2]))  # two words, and one that is no word
    >>> glance(RecurrentNetwork(c).parameters, c, encoded, np.zeros((1, 1, 5)), 0)[1].tolist()
    [[[0.5, 0.5, 0.0]]]
    """
    if not c.attends:
        final = encoded.final[:, None]
        return np.broadcast_to(final, (*states.shape[:2], final.shape[-1])), np.zeros((*states.shape[:2], 0))
    if coverage is None:
        return _looked(p, c, encoded, states, place, None)
    # Each hypothesis has looked elsewhere so far, so each has keys of its own.
    hypotheses = range(states.shape[1])
    looks = [_looked(p, c, encoded, states[:, [i]], place, coverage[:, i]) for i in hypotheses]
    return np.concatenate([look[0] for look in looks], axis=1), np.concatenate(
        [look[1] for look in looks], axis=1
    )


def _looked(
    p: Mapping[str, Array], c: Recurrent, encoded: Encoded, states: Array, place: int, coverage: Array | None
) -> tuple[Array, Array]:
    """Look for hypotheses of each sentence (B, k, D); for one (B, 1, D) if there is its coverage (B, T)."""
    question = _ask(p, c, encoded, states, place, coverage)
    seen = attend(question.queries, question.keys, encoded.values, **question.options)
    return seen.context, seen.weights


class Looks:
    """The looks of one pass over a batch's targets, and back again.

    Parameters
    ----------
    p : mapping of str to array
        The network's parameters.
    c : Recurrent
        Its configuration.
    encoded : Encoded
        The sources.
    seen : bool
        Whether the weights are wanted, and take part in the gradient; a network with coverage needs them itself.
    """

    def __init__(self, p: Mapping[str, Array], c: Recurrent, encoded: Encoded, *, seen: bool = False) -> None:
        self.p, self.c, self.encoded = p, c, encoded
        self.seen = c.attends and (seen or c.coverage)
        self.values = beside_identity(encoded.values) if self.seen else encoded.values
        self.coverage = np.zeros(encoded.values.shape[:2], encoded.values.dtype) if c.coverage else None
        self.covered: list[Array] = []
        self.states: list[Array] = []
        self.pulls: list[Callable[[Array], Any]] = []
        self.dcoverage: Array | None = None
        self.dqueries: list[Array] = []
        self.d = Encoded(*(np.zeros_like(part) for part in encoded))
        self.g: Named = {name: np.zeros_like(p[name]) for name in shapes(c)}

    def forward(self, state: Array) -> tuple[Array, Array | None]:
        """Return what a state (B, D) sees (B, C), and where (B, T) if that is wanted."""
        if not self.c.attends:
            return self.encoded.final, None
        place = len(self.states)
        question = _ask(self.p, self.c, self.encoded, state[:, None], place, self.coverage)
        context, pull = attention_vjp(question.queries, question.keys, self.values, **question.options)
        self.states.append(state)
        self.pulls.append(pull)
        size = self.encoded.values.shape[-1]
        weights = context[:, 0, size:] if self.seen else None
        if self.coverage is not None:
            self.covered.append(self.coverage)
            self.coverage = self.coverage + weights
        return context[:, 0, :size], weights

    def backward(self, dcontext: Array, dweights: Array | None = None) -> Array:
        """Return the gradient (B, D) of the state that looked last, of those that have not been asked yet."""
        if not self.c.attends:
            self.d.final[...] += dcontext
            return np.zeros_like(dcontext, shape=(len(dcontext), self.c.decoder))
        gradients = self.pulls.pop()(self._both(dcontext, dweights)[:, None])
        state = self.states[len(self.pulls)]
        self.d.keys[...] += gradients.keys
        self.d.values[...] += gradients.values[..., : self.d.values.shape[-1]]
        self._collect(gradients.score)
        self._cover(gradients.keys)
        self.dqueries.append(gradients.queries[:, 0])
        dstate: Array = gradients.queries[:, 0]
        if "query_weight" in self.p:
            dstate = dstate @ self.p["query_weight"].T
        if "positions" in gradients.normalize:
            _, places_back = _places(self.p, self.encoded, state[:, None])
            dplace, named = places_back(gradients.normalize["positions"])
            dstate = dstate + dplace[:, 0]
            for name, part in named.items():
                self.g[name] += part
        return dstate

    def _both(self, dcontext: Array, dweights: Array | None) -> Array:
        """Return the gradient of what attention gave: the context, and the weights behind it if they were asked for."""
        if not self.seen:
            return dcontext
        if dweights is None:
            dweights = np.zeros_like(dcontext, shape=self.encoded.values.shape[:2])
        if self.dcoverage is not None:  # a weight is part of the coverage of all later steps
            dweights = dweights + self.dcoverage
        return np.concatenate([dcontext, dweights], axis=-1)

    def _collect(self, score: Mapping[str, Array]) -> None:
        if "vector" in score:
            self.g["attention_vector"] += score["vector"]
        if "weight" in score:
            dweight = score["weight"]
            np.add.at(self.g["location_weight"].T, _columns(self.c, dweight.shape[1]), dweight.T)

    def _cover(self, dkeys: Array) -> None:
        """Take the gradient of a step's keys (B, T, A) on to the coverage before the step."""
        if self.coverage is None:
            return
        covered = self.covered[len(self.pulls)]
        self.g["coverage_vector"] += covered.reshape(-1) @ as_rows(dkeys)
        dcovered = dkeys @ self.p["coverage_vector"]
        self.dcoverage = dcovered if self.dcoverage is None else self.dcoverage + dcovered

    def finish(self, dstart: Array) -> tuple[Encoded, Named]:
        """Return what was collected: for the encoder, and for the parameters."""
        if self.dqueries and "query_weight" in self.p:
            queries = np.concatenate(self.dqueries[::-1])
            self.g["query_weight"] += np.concatenate(self.states).T @ queries
        return self.d._replace(start=dstart), self.g
