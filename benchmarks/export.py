"""An exported model in onnxruntime: words a second, time to load, memory; and a GRU node next to a Scan.

python benchmarks/export.py APP WORDS      a folder of `regard export`, and a file whose first column is decoded

One thread; the seconds are those of the processor, so that other programs do not count.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from record import add_option, keep, save

BEAMS = (1, 5)
EMBEDDING, STATE = 128, 192
SHAPES = ((8, 1), (30, 1), (8, 64))  # tokens, sources
TURNS, CALLS = 7, 60


def decoding(folder: Path, words: list[str]) -> None:
    """Print how long a model takes, and the memory of this process after it."""
    sys.path.insert(0, str(folder))
    from decode import Decoder

    begin = time.process_time()
    decoder = Decoder(folder)
    load = 1000 * (time.process_time() - begin)
    print(f"loaded in {load:.0f} ms")
    keep(what="load, ms", figure=load)
    decoder(words[0])
    for beam in BEAMS:
        begin = time.process_time()
        for word in words:
            decoder(word, beam)
        rate = len(words) / (time.process_time() - begin)
        print(f"beam {beam}: {rate:,.0f} words a second")
        keep(what=f"words a second, beam {beam}", figure=rate)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory of the process: {memory:.0f} MiB")
    keep(what="memory of the process, MiB", figure=memory)


def session(nodes: list[Any], inputs: list[str], arrays: dict[str, Any]) -> Any:
    """Return a graph from rows (T, B, E), and perhaps lengths (B,), to `states`."""
    from onnx import TensorProto, helper, numpy_helper

    known = {
        "rows": helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["t", "b", EMBEDDING]),
        "lengths": helper.make_tensor_value_info("lengths", TensorProto.INT32, ["b"]),
    }
    output = helper.make_tensor_value_info("states", TensorProto.FLOAT, None)
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "layer", [known[name] for name in inputs], [output], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def scan_body(direction: int) -> Any:
    """Return the graph of one step of a GRU, whose gates are update, reset, candidate."""
    from onnx import TensorProto, helper

    node, value = helper.make_node, helper.make_tensor_value_info
    nodes = [
        node("MatMul", ["state", f"recurrent_{direction}"], ["hidden"]),
        node("Split", ["gates"], ["update_in", "reset_in", "candidate_in"], axis=-1),
        node("Split", ["hidden"], ["update_of", "reset_of", "candidate_of"], axis=-1),
        node("Add", ["update_in", "update_of"], ["update_sum"]),
        node("Add", ["reset_in", "reset_of"], ["reset_sum"]),
        node("Sigmoid", ["update_sum"], ["update"]),
        node("Sigmoid", ["reset_sum"], ["reset"]),
        node("Mul", ["reset", "candidate_of"], ["kept"]),
        node("Add", ["candidate_in", "kept"], ["candidate_sum"]),
        node("Tanh", ["candidate_sum"], ["candidate"]),
        node("Sub", ["state", "candidate"], ["difference"]),
        node("Mul", ["update", "difference"], ["share"]),
        node("Add", ["candidate", "share"], ["new"]),
        node("Identity", ["new"], ["output"]),
    ]
    sizes = (("state", STATE), ("gates", 3 * STATE), ("new", STATE), ("output", STATE))
    state, gates, new, output = (value(name, TensorProto.FLOAT, ["b", size]) for name, size in sizes)
    return helper.make_graph(nodes, f"step_{direction}", [state, gates], [new, output])


def layers() -> tuple[Any, Any]:
    """Return a bidirectional layer as a GRU node, and as two Scans with the products of the inputs outside."""
    from onnx.helper import make_node as node  # not before the memory of decoding is measured

    rng = np.random.default_rng(0)
    w = rng.normal(0, 0.1, (2, 3 * STATE, EMBEDDING)).astype(np.float32)
    r = rng.normal(0, 0.1, (2, 3 * STATE, STATE)).astype(np.float32)
    options = {"direction": "bidirectional", "hidden_size": STATE, "linear_before_reset": 1}
    gru = session(
        [node("GRU", ["rows", "w", "r", "", "lengths"], ["states"], **options)],
        ["rows", "lengths"],
        {"w": w, "r": r},
    )
    arrays: dict[str, Any] = {"one": np.array([1]), "size": np.array([STATE])}
    nodes = [
        node("Shape", ["rows"], ["shape"]),
        node("Gather", ["shape", "one"], ["batch"]),
        node("Concat", ["batch", "size"], ["first"], axis=0),
        node("ConstantOfShape", ["first"], ["zeros"]),
    ]
    for k in (0, 1):
        arrays |= {f"input_{k}": np.ascontiguousarray(w[k].T), f"recurrent_{k}": np.ascontiguousarray(r[k].T)}
        directions = {"scan_input_directions": [k], "scan_output_directions": [k]}
        scan = {"body": scan_body(k), "num_scan_inputs": 1} | directions
        nodes.append(node("MatMul", ["rows", f"input_{k}"], [f"gates_{k}"]))
        nodes.append(node("Scan", ["zeros", f"gates_{k}"], [f"last_{k}", f"states_{k}"], **scan))
    nodes.append(node("Concat", ["states_0", "states_1"], ["states"], axis=-1))
    return gru, session(nodes, ["rows"], arrays)


def fastest(call: Callable[[], object]) -> float:
    """Return the seconds of the processor for one call, of the fastest turn."""
    turns = []
    for _ in range(TURNS):
        begin = time.process_time()
        for _ in range(CALLS):
            call()
        turns.append((time.process_time() - begin) / CALLS)
    return min(turns)


def recurrences() -> None:
    """Print the time of both layers."""
    gru, scan = layers()
    rng = np.random.default_rng(1)
    for tokens, sources in SHAPES:
        rows = rng.normal(size=(tokens, sources, EMBEDDING)).astype(np.float32)
        given = {"rows": rows, "lengths": np.full(sources, tokens, np.int32)}
        states = np.concatenate([*gru.run(None, given)[0].swapaxes(0, 1)], axis=-1)
        assert np.allclose(states, scan.run(None, {"rows": rows})[0], atol=1e-5)
        node, loop = (fastest(partial(s.run, None, g)) for s, g in ((gru, given), (scan, {"rows": rows})))
        print(f"{sources} x {tokens} tokens: GRU {1e6 * node:,.0f} us, Scan {1e6 * loop:,.0f} us")


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("app", type=Path)
    parser.add_argument("words", type=Path)
    add_option(parser)
    args = parser.parse_args()
    lines = args.words.read_text("utf-8").splitlines()
    decoding(args.app, [line.split("\t")[0] for line in lines][:1000])
    recurrences()
    save(args.json)


if __name__ == "__main__":
    main()
