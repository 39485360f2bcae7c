"""The two graphs of a network, whichever its family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard import _check
from regard.seq2seq.export import recurrent, transformer
from regard.seq2seq.networks.base import Network
from regard.seq2seq.networks.families import build
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.storage.model_file import Model

__all__ = ["check_exportable", "graphs", "network_alone"]


def check_exportable(model: Model[Network], *, without_extras: bool) -> None:
    """Raise ValueError for a network without graphs, and for extras, which ONNX files can't hold, unless left out."""
    c = model.network.config
    score, known = getattr(c, "score", "scaled_dot"), recurrent.SCORES
    if c.normalize != "softmax" or score not in known:
        scores = ", ".join(name for name in known if name != "none")
        rule = f"only networks with normalize=softmax and a score of {scores} can be exported."
        _check.fail(f"{rule} This network has score={score}, normalize={c.normalize}.")
    if model.extras and not without_extras:
        names = " and ".join(name.replace("_", " ") for name in model.extras)
        rule = f"a model is exported without its extras, and this one has {names}."
        _check.fail(rule, hint="--without-extras exports the network alone, and measures what this costs")


def network_alone(model: Model[Network]) -> Network:
    """Return the network without the embeddings of tokens that an extra would append to sources."""
    config, tokens = model.network.config, model.source.spec.tokens
    if config.source_tokens == tokens:
        return model.network
    config = replace(config, source_tokens=tokens)
    parameters = Parameters(config.shapes())
    for name, parameter in parameters.items():
        parameter[...] = model.network.parameters[name][: len(parameter)]
    return build(config, parameters)


def graphs(network: Network, metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return the graphs "encoder" and "step" of a network, as checked ModelProtos with these metadata."""
    p, c = network.parameters, network.config
    family: Any = recurrent if isinstance(c, RecurrentConfig) else transformer
    made = {"encoder": family.encoder(p, c), "step": family.step_graph(p, c)}
    return {name: graph.model(name, metadata) for name, graph in made.items()}
