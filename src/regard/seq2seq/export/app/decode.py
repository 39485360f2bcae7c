"""Decode texts, or files of pictures or vectors, by NumPy and onnxruntime; without any, examples.tsv is checked."""

import json
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from text import END, START, UNKNOWN, TextRules, blocked, repetitions

# The score is the mean log-probability; weights: of tokens to tokens and end, cells or vectors; cut: at the limit.
Output = namedtuple("Output", "text tokens score weights cut")
NOTHING: Any = [], 0.0, np.zeros((0, 1)), False  # of a text without tokens


class Decoder:
    """A model in a folder of ``regard export``."""

    def __init__(self, folder: str | Path) -> None:
        self.rules = rules = json.loads(Path(folder, "model.json").read_text("utf-8"))
        kind = TextRules if "tokens" in rules["source"] else __import__("arrays").ArrayRules
        self.source, self.target = kind(rules["source"]), TextRules(rules["target"])
        self.ends = [END] * (kind is TextRules)
        self.limit, self.repetitions, self.copies = rules["limit"], rules["repetitions"], rules["copies"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # for small products, threads only wait
        files = Path(folder, "encoder.onnx"), Path(folder, "step.onnx")
        self.encoder, self.step = graphs = [onnxruntime.InferenceSession(file, options) for file in files]
        stored = {graph.get_modelmeta().custom_metadata_map["parameters"] for graph in graphs}
        if stored != {rules["parameters"]}:
            raise ValueError("encoder.onnx, step.onnx and model.json are not of one model: export it again")

    def __call__(self, source: Any, beam: int = 1) -> Output:
        """Return the best output that a beam of this size finds for a text, an array or a file; 1 is greedy search."""
        read = self.source.tokenize(source)
        rows = [*self.source.encode(read), *self.ends]
        ids, score, weights, cut = self.search(rows, beam) if len(read) else NOTHING
        tokens = [self.target.tokens[i] for i in ids]
        unknown = [i for i, row in enumerate(rows) if row == UNKNOWN] if self.copies else []
        for row in [row for row, i in enumerate(ids) if i == UNKNOWN]:  # the likeliest that is left is copied
            at = max(unknown, key=weights[row].__getitem__) if weights.size else unknown[0]
            tokens[row] = self.target.copy_token(read[at], self.source)
            unknown.remove(at)
        return Output(self.target.detokenize(tokens), tokens, score, weights, cut)

    def search(self, rows: list[Any], beam: int = 1) -> tuple[list[int], float, Any, bool]:
        """Return the ids of the best output, their score and weights, and whether they were cut off."""
        found, cut = self.hypotheses(rows, beam, 1)
        score, ids, weights = found[0]
        return ids[1:-1], float(score), np.array(weights)[: len(ids) - 2], cut

    def hypotheses(self, rows: list[Any], beam: int, count: int) -> tuple[list[Any], bool]:
        """Return the best hypotheses, each with its score, ids and weights, and whether they were cut off."""
        source = {"source": np.array([rows]), "lengths": np.array([len(rows)])}
        given, most = source | run(self.encoder, source), self.limit[0] * len(rows) + self.limit[1]
        often, copies = self.repetitions, rows.count(UNKNOWN) if self.copies else 0
        often = max(often, repetitions(rows)) if often and self.copies else often
        live: list[Any] = [(0.0, [START], [])]  # log-probability, ids, weights
        done: list[Any] = []  # the same, with the mean
        for length in range(1, most + 1):
            out = run(self.step, given | {"token": np.array([ids[-1] for _, ids, _ in live])})
            totals, grown = out["log_probs"] + np.array([[hypothesis[0]] for hypothesis in live]), []
            for i, hypothesis in enumerate(live):
                totals[i, blocked(hypothesis[1][1:], often, copies)] = -np.inf
            order = np.argsort(-totals, axis=None, kind="stable")[: 2 * beam]  # half of them may be ends
            for rank, place in enumerate(order[totals.flat[order] > -np.inf].tolist()):
                i, token = divmod(place, totals.shape[1])
                weights = [*live[i][2], *out.get("weights", [[]] * len(live))[i : i + 1]]
                if token != END:
                    grown.append((totals.flat[place], [*live[i][1], token], weights, i))
                elif rank < beam:
                    done.append((totals.flat[place] / length, [*live[i][1], END], weights))
            live = [hypothesis[:3] for hypothesis in grown[:beam]]
            done.sort(key=lambda hypothesis: -hypothesis[0])
            if not live or (len(done) >= count and (beam == 1 or done[count - 1][0] >= live[0][0] / most)):
                break  # nothing that is longer can be better
            given["state"] = out["new_state"][[hypothesis[3] for hypothesis in grown[:beam]]]
        return done[:count] or [(live[0][0] / most, [*live[0][1], END], live[0][2])], not done


def run(session: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return the outputs of a graph by name."""
    names, inputs = ([value.name for value in side] for side in (session.get_outputs(), session.get_inputs()))
    return dict(zip(names, session.run(None, {name: given[name] for name in inputs}), strict=True))


if __name__ == "__main__":
    decoder = Decoder(Path(__file__).parent)
    lines = [] if sys.argv[1:] else (Path(__file__).parent / "examples.tsv").read_text("utf-8").splitlines()
    wrong = [line for line in lines if decoder(line.split("\t")[0]).text != line.split("\t")[1]]
    print(*(decoder(text).text for text in sys.argv[1:]), *wrong, sep="\n")
    sys.exit(f"{len(wrong)} of {len(lines)} answers are wrong" if wrong else 0)
