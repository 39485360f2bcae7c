"""Comparison of an exported model with its network: answers, and log-probabilities along them.

Letters: B sentences, T source positions, n target tokens, V size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.corpus.batching import source_batch
from regard.seq2seq.corpus.packing import Row
from regard.seq2seq.decoding.beam import BEAM, beam
from regard.seq2seq.decoding.search import log_normalizer
from regard.seq2seq.networks.base import Predictor
from regard.seq2seq.sources.text.vocabulary import END, START

__all__ = ["SHORT", "TOLERANCE", "Comparison", "allowed", "compare"]

Array = NDArray[Any]

TOLERANCE = 1e-4  # of log-probabilities: float32 sums in another order
SHORT = 100  # tokens of source and answer together: rounding errors of more grow with their number
_TOGETHER = 32  # sources of a batch
_BEAMED = 200  # sources that are also searched with a beam


class Comparison(NamedTuple):
    """How an exported model differs from its network on some sources.

    `different`: the sources whose answers differ, although their probabilities are not equal up to rounding; `ties`:
    different answers of equal probability; `largest`: the largest difference of two log-probabilities; `excess`: the
    largest of such a difference over what is allowed for its number of tokens.
    """

    different: list[int]
    ties: int
    largest: float
    excess: float


def allowed(tokens: Any) -> Any:
    """Return the largest difference of two log-probabilities after a source and an answer of so many tokens."""
    return TOLERANCE * np.maximum(tokens / SHORT, 1)


def compare(
    network: Predictor,
    decoder: Any,
    rows: Sequence[Row],
    done: Callable[[int], object] = lambda _: None,
) -> Comparison:
    """Compare greedy answers of all sources, answers of a beam for some, and log-probabilities.

    `network`: the network alone, with the model's restrictions; `decoder`: a `Decoder` of the exported model; `rows`:
    the sources as the network reads them: ids with END, or rows of numbers; `done`: called with the number of sources
    that were compared since its last call.
    """
    every, different, ties, largest, excess = -(-len(rows) // _BEAMED), list[int](), 0, 0.0, 0.0
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    for group in (order[start : start + _TOGETHER] for start in range(0, len(order), _TOGETHER)):
        source, lengths = source_batch([rows[i] for i in group])
        answers = [best.tokens for (best,) in beam(network, source, lengths, width=1)]
        steps = list(_both(network, decoder, source, lengths, answers))
        for number, (logs, other, going) in enumerate(steps):
            apart = np.abs(logs - other).max(axis=1)
            largest = max(largest, float(apart[going].max()))
            excess = max(excess, float((apart / allowed(lengths + number))[going].max()))
        for k, i in enumerate(group):
            read = [*source[: lengths[k], k]]
            found = tuple(decoder.search(read)[0])
            equal = found == answers[k]
            bound = float(allowed(lengths[k] + len(answers[k])))
            tied = not equal and _is_tie([logs[k] for logs, _, _ in steps], answers[k], found, bound)
            if not i % every:
                searched = beam(network, source[: lengths[k], [k]], lengths[[k]], width=BEAM)[0][0]
                tokens, score, *_ = decoder.search(read, BEAM)
                close = abs(score - searched.score) <= bound
                tied, equal = tied or (close and equal), equal and (tuple(tokens) == searched.tokens)
            ties += tied and not equal
            different += [i] * (not equal and not tied)
        done(len(group))
    return Comparison(sorted(different), ties, largest, excess)


def _both(
    network: Predictor, decoder: Any, source: Array, lengths: Array, answers: Sequence[Row]
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield for each step of the answers the log-probabilities (B, V) of both, and which sentences are not over."""
    from_encoder = _run(
        decoder.encoder, {"source": np.ascontiguousarray(source.swapaxes(0, 1)), "lengths": lengths}
    )
    given, stepper = from_encoder | {"lengths": lengths}, network.stepper(source, lengths)
    counts = np.array([len(answer) for answer in answers])
    for step in range(int(counts.max()) + 1):
        before = [
            START if not step else answer[min(step, len(answer)) - 1] if answer else END for answer in answers
        ]
        logits = stepper(np.array(before)[:, None])[0]
        out = _run(decoder.step, given | {"token": np.array(before)})
        given["state"] = out["new_state"]
        yield (logits - log_normalizer(logits)[..., None])[:, 0], out["log_probs"], counts >= step


def _run(session: Any, given: dict[str, Array]) -> dict[str, Array]:
    names = [value.name for value in session.get_outputs()]
    return dict(
        zip(names, session.run(None, {x.name: given[x.name] for x in session.get_inputs()}), strict=True)
    )


def _is_tie(logs: Sequence[Array], answer: Row, found: Row, bound: float) -> bool:
    """Return whether two answers part at tokens of equal log-probability up to the tolerance."""
    first, second = (*answer, END), (*found, END)
    step = next(i for i, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1])
    return bool(logs[step][first[step]] - logs[step][second[step]] <= bound)
