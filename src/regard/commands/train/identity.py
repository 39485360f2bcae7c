"""The identity of a training: of its model, its pairs and its task."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from regard.commands.tasks.data import Data
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.networks.families import FAMILIES
from regard.seq2seq.networks.options import first_names

__all__ = ["identity"]


def identity(model: Seq2Seq, data: Data, of_task: Mapping[str, str]) -> str:
    """Return a hash of a model's options, by first names, of the pairs with their links, and of what a task adds."""
    options = {n: x for n, x in vars(model).items() if not n.startswith("_") and x not in (None, {})}
    options["training"] = first_names(model.training, model.training.given())
    if network := options.pop("network_options", None):
        options["network"] = first_names(FAMILIES[model.family].config, network)
    links = (
        [] if data.links is None else [data.links.file.by, *(sorted(line.links) for line in data.links.lines)]
    )
    digest = hashlib.sha256(json.dumps(options, sort_keys=True, default=repr).encode())
    parts: list[list[Any]] = [
        [tuple(side.identity for side in pair) for pair in part] for part in (data.train, data.valid)
    ]
    for part in (*parts, links):
        for item in part:
            digest.update(repr(item).encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    if of_task:
        digest.update(json.dumps(dict(of_task), sort_keys=True).encode())
    return digest.hexdigest()
