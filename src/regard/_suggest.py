"""Suggestions for unknown options and verbs: close names, and names of other translation toolkits."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

__all__: list[str] = []

_OUTPUT = "the result is written to standard output: > FILE"
_FILES = "files are named without an option"

# Names in OpenNMT, Joey NMT, Marian, fairseq and Hugging Face's scripts that resemble no name here, by the equivalents:
# the first option that the verb has is suggested; anything else is a sentence.
_TABLE: dict[tuple[str, ...], str] = {
    ("--beam",): "num-beams b k",
    ("--n-best",): "n num-return-sequences",
    ("--out", _OUTPUT): "o output output-dir output-file out-file save-model save-dir model-dir destdir",
    ("--batch-tokens", "batches are chosen by length"): (
        "batch-size batch mini-batch mini-batch-words per-device-train-batch-size"
    ),
    ("--learning-rate",): "lr rate rate-max",
    ("--warm-up",): "warmup-steps warmup-updates",
    ("--epochs",): "e after-epochs max-epoch num-train-epochs",
    ("--steps",): "train-steps max-steps max-update after-batches num-steps updates",
    ("--minutes",): "time time-limit max-time hours seconds stop-time-hours",
    ("--patience",): "early-stopping early-stop",
    ("--dropout",): "attention-dropout",
    ("--clip-norm",): "max-grad-norm clip-gradient",
    ("--ema-decay",): "exponential-smoothing average",
    ("--rdrop",): "agreement",
    ("--guided-alignment", "--alignment"): "guidance lambda-align",
    ("each option of training has a name of its own: --learning-rate X, --dropout X",): "recipe",
    ("--network encoder=N decoder=N",): "rnn-size hidden-size hidden dim-rnn dim units",
    ("--network embedding=N",): "dim-emb emb-size word-vec-size embedding-dim embedding",
    ("--network model_size=N",): "model-size d-model model-dim width",
    ("--network feedforward_size=N",): "feedforward-size dim-ffn transformer-ff d-ff",
    ("--network layers=N",): "layers num-layers enc-depth dec-depth encoder-layers",
    ("--network heads=N",): "heads transformer-heads encoder-attention-heads num-heads",
    ("--family",): "arch type encoder-type decoder-type architecture",
    ("--network score=NAME",): "attention global-attention attention-type",
    ("--network cell=NAME",): "rnn-type cell enc-cell dec-cell",
    (
        _FILES,
    ): "train-sets trainpref train train-file data input i src tgt train-src train-tgt src-file text model m",
    ("--valid",): "dev dev-set validation validation-file eval",
    ("--test", _FILES): "testpref test-file test-set",
    ("--vocabulary",): "vocab-size src-vocab-size tgt-vocab-size dim-vocabs nwordssrc voc-limit",
    ("--min-count",): "thresholdsrc thresholdtgt min-frequency min-freq voc-min-freq",
    ("--max-tokens",): "max-length max-sent-length src-seq-length max-source-length",
    ("--lower",): "uncased",
    ("--subwords",): "bpe sentencepiece spm src-subword-type",
    ("--source",): "level tokenizer",
    ("--length-penalty",): "lenpen normalize alpha",
    ("--sample",): "output-sampling",
    ("--top-k",): "sampling-topk random-sampling-topk",
    ("--top-p",): "sampling-topp random-sampling-topp",
    ("--temperature",): "random-sampling-temp",
    ("--alignment", "--png"): "report-align print-alignment attn-debug return-attention",
    ("--unknown-words",): "replace-unk replace-unknown copy",
    ("--repetitions",): "no-repeat-ngram-size block-ngram-repeat max-repetitions",
    ("--seed",): "random-seed",
    ("--fresh", "--force"): "overwrite force f",
    ("--fresh",): "no-restore reset restart",
    ("the same command resumes from its checkpoint by itself",): (
        "resume continue train-from load-model restore-file checkpoint"
    ),
    ("everything runs on the processor",): "gpu gpus gpu-ranks device devices d cuda use-cuda cpu fp16",
    ("OPENBLAS_NUM_THREADS sets the number of threads",): "threads workers num-workers cpu-threads",
    ("options are given on the command line",): "config c yaml",
    ("--references",): "refs",
    ("--hypotheses",): "hyps",
    ("--measure",): "metric metrics",
    ("--png",): "plot figure save-plot",
    ("--columns",): "header fields",
}
_EQUIVALENTS = {name: equivalents for equivalents, names in _TABLE.items() for name in names.split()}
_VERBS = {
    **dict.fromkeys(("learn", "fit", "preprocess", "build-vocab"), "train"),
    **dict.fromkeys(("predict", "infer", "generate", "decode", "interactive", "test", "run"), "translate"),
    **dict.fromkeys(("score", "bleu", "measure", "validate", "compare"), "evaluate"),
    **dict.fromkeys(("plot", "log", "draw"), "curve"),
    "link": "align",
    **dict.fromkeys(("demo", "tell"), "explain"),
}
_DASHES = "-\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}"
_CHOICE = re.compile(r"invalid choice: '?(.*?)'? \(choose from (.*)\)", re.DOTALL)
_CLOSE = 0.7


def unknown(arguments: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the unknown options among arguments, as they are written.

    A long dash, as editors insert it, also begins an option if a known name follows.
    """
    names = set(known)
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return [
        argument
        for argument in options
        if argument.partition("=")[0] not in names
        and (is_option(argument) or (argument[:1] in _DASHES[1:] and f"--{_normalized(argument)}" in names))
    ]


def is_option(argument: str) -> bool:
    """Return whether an argument has the form of an option: not "-", a number or text with spaces."""
    if not argument.startswith("-") or len(argument) == 1 or " " in argument:
        return False
    try:
        float(argument)
    except ValueError:
        return True
    return False


def _normalized(argument: str) -> str:
    """Return the name of an option in lower case, with hyphens between words, without its value."""
    return argument.partition("=")[0].strip(_DASHES).lower().replace("_", "-")


def option(argument: str, known: Iterable[str], renamed: Mapping[str, str]) -> str:
    """Return a suggestion for an unknown option; empty if there is none. `renamed`: new names by first names."""
    names = [name.removeprefix("--") for name in known if name.startswith("--")]
    plain = _normalized(argument)
    if new := renamed.get(f"--{plain}"):
        return f"--{plain} is called {new}"
    if plain in names:
        return _meant(f"--{plain}")
    for equivalent in _EQUIVALENTS.get(plain, ()):
        if not equivalent.startswith("--"):
            return equivalent
        if equivalent.partition(" ")[0][2:] in names:
            return _meant(equivalent)
    longer = [name for name in names if len(plain) > 1 and name.startswith(plain)]
    close = longer or difflib.get_close_matches(plain, names, 1, _CLOSE)
    close = close or [name for name in names if plain.startswith(f"{name}-")]
    return _meant(f"--{close[0]}") if close else ""


def choice(message: str) -> str:
    """Return an error of argparse; for an invalid choice, with the most similar one."""
    match = _CHOICE.search(message)
    if match is None:
        return message
    value, choices = match[1].lower(), [choice.strip("'\" ") for choice in match[2].split(",")]
    close = [_VERBS[value]] if _VERBS.get(value) in choices else difflib.get_close_matches(value, choices, 1)
    return f"{message}; {_meant(close[0])}" if close else message


def _meant(name: str) -> str:
    return f"did you mean {name}?"
