"""Suggestions for unknown options and verbs: close names, and names of other translation toolkits."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

__all__: list[str] = []

_OUTPUT = "the result is written to standard output: > FILE"
_FILES = "files are named without an option"
_DEVICE = "everything runs on the processor"
_RESUME = "the same command resumes from its checkpoint by itself"

# Names in OpenNMT, Joey NMT, Marian, fairseq and Hugging Face's scripts, and the equivalents here: the first option
# that the verb has is suggested; anything else is a sentence.
_EQUIVALENTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("beam-size", "num-beams", "beams", "beam-width", "b", "k"), ("--beam",)),
    **dict.fromkeys(("n", "nbest", "num-return-sequences"), ("--n-best",)),
    **dict.fromkeys(
        (
            "o",
            "output",
            "output-dir",
            "output-file",
            "out-file",
            "save-model",
            "save-dir",
            "model-dir",
            "destdir",
        ),
        ("--out", _OUTPUT),
    ),
    **dict.fromkeys(
        (
            "batch-size",
            "batch",
            "mini-batch",
            "mini-batch-words",
            "batch-type",
            "per-device-train-batch-size",
        ),
        ("--batch-tokens", "batches are chosen by length"),
    ),
    **dict.fromkeys(("lr", "learn-rate", "rate", "rate-max"), ("--learning-rate",)),
    **dict.fromkeys(("lr-warmup", "warmup-steps", "warmup-updates", "warmup"), ("--warm-up",)),
    **dict.fromkeys(
        (
            "e",
            "after-epochs",
            "max-epoch",
            "max-epochs",
            "num-epochs",
            "num-train-epochs",
            "epoch",
        ),
        ("--epochs",),
    ),
    **dict.fromkeys(
        ("train-steps", "max-steps", "max-update", "after-batches", "after", "num-steps", "updates"),
        ("--steps",),
    ),
    **dict.fromkeys(
        ("time", "time-limit", "max-time", "hours", "seconds", "stop-time-hours"), ("--minutes",)
    ),
    **dict.fromkeys(("early-stopping", "early-stop"), ("--patience",)),
    **dict.fromkeys(("attention-dropout",), ("--dropout",)),
    **dict.fromkeys(("smoothing",), ("--label-smoothing",)),
    **dict.fromkeys(("max-grad-norm", "clip-gradient", "clip"), ("--clip-norm",)),
    **dict.fromkeys(("exponential-smoothing", "average-decay", "average", "ema"), ("--ema-decay",)),
    **dict.fromkeys(("r-drop", "agreement"), ("--rdrop",)),
    **dict.fromkeys(("guidance", "lambda-align"), ("--guided-alignment", "--alignment")),
    "recipe": ("each option of training has a name of its own: --learning-rate X, --dropout X",),
    **dict.fromkeys(
        ("rnn-size", "hidden-size", "hidden", "dim-rnn", "dim", "units"), ("--network encoder=N decoder=N",)
    ),
    **dict.fromkeys(
        ("dim-emb", "emb-size", "word-vec-size", "embedding-dim", "embedding"), ("--network embedding=N",)
    ),
    **dict.fromkeys(("model-size", "d-model", "model-dim", "width"), ("--network model_size=N",)),
    **dict.fromkeys(
        ("feedforward-size", "dim-ffn", "transformer-ff", "d-ff"), ("--network feedforward_size=N",)
    ),
    **dict.fromkeys(
        ("layers", "num-layers", "enc-depth", "dec-depth", "encoder-layers"), ("--network layers=N",)
    ),
    **dict.fromkeys(
        ("heads", "transformer-heads", "encoder-attention-heads", "num-heads"), ("--network heads=N",)
    ),
    **dict.fromkeys(("arch", "type", "encoder-type", "decoder-type", "architecture"), ("--family",)),
    **dict.fromkeys(("attention", "global-attention", "attention-type"), ("--network score=NAME",)),
    **dict.fromkeys(("rnn-type", "cell", "enc-cell", "dec-cell"), ("--network cell=NAME",)),
    **dict.fromkeys(
        ("train-sets", "trainpref", "train", "train-file", "data", "input", "i", "src", "tgt"), (_FILES,)
    ),
    **dict.fromkeys(
        ("train-src", "train-tgt", "src-file", "text", "models", "model", "m", "path"), (_FILES,)
    ),
    **dict.fromkeys(
        ("valid-sets", "validpref", "dev", "dev-set", "validation", "validation-file"), ("--valid",)
    ),
    **dict.fromkeys(("valid-src", "valid-tgt", "eval"), ("--valid",)),
    **dict.fromkeys(("testpref", "test-file", "test-set"), ("--test", _FILES)),
    **dict.fromkeys(
        (
            "vocab-size",
            "vocab",
            "vocabs",
            "src-vocab-size",
            "tgt-vocab-size",
            "dim-vocabs",
            "nwordssrc",
            "voc-limit",
        ),
        ("--vocabulary",),
    ),
    **dict.fromkeys(
        ("least", "thresholdsrc", "thresholdtgt", "min-frequency", "min-freq", "voc-min-freq"),
        ("--min-count",),
    ),
    **dict.fromkeys(
        ("max-length", "max-len", "max-sent-length", "src-seq-length", "max-source-length"), ("--max-tokens",)
    ),
    **dict.fromkeys(("lowercase", "lower-case", "uncased"), ("--lower",)),
    **dict.fromkeys(("bpe", "sentencepiece", "spm", "src-subword-type"), ("--subwords",)),
    **dict.fromkeys(("level", "tokenizer", "src-lang", "source-lang", "s"), ("--source",)),
    **dict.fromkeys(("tgt-lang", "target-lang", "t"), ("--target",)),
    **dict.fromkeys(("lenpen", "normalize", "alpha", "length-penalty"), ("--length-penalty",)),
    **dict.fromkeys(("sampling", "do-sample", "output-sampling", "random-sampling-topk"), ("--sample",)),
    **dict.fromkeys(("sampling-topk", "topk"), ("--top-k",)),
    **dict.fromkeys(("sampling-topp", "topp", "random-sampling-topp"), ("--top-p",)),
    **dict.fromkeys(("random-sampling-temp", "temp"), ("--temperature",)),
    **dict.fromkeys(
        ("report-align", "print-alignment", "attn-debug", "return-attention"), ("--alignment", "--png")
    ),
    **dict.fromkeys(("replace-unk", "replace-unknown", "copy"), ("--unknown-words",)),
    **dict.fromkeys(("no-repeat-ngram-size", "block-ngram-repeat", "max-repetitions"), ("--repetitions",)),
    **dict.fromkeys(("random-seed",), ("--seed",)),
    **dict.fromkeys(("overwrite", "no-restore", "reset", "restart", "force", "f"), ("--fresh",)),
    **dict.fromkeys(
        ("resume", "continue", "train-from", "load-model", "restore-file", "checkpoint"), (_RESUME,)
    ),
    **dict.fromkeys(
        ("gpu", "gpus", "gpu-ranks", "device", "devices", "d", "cuda", "use-cuda", "cpu", "fp16"), (_DEVICE,)
    ),
    **dict.fromkeys(
        ("threads", "workers", "num-workers", "cpu-threads"),
        ("OPENBLAS_NUM_THREADS sets the number of threads",),
    ),
    **dict.fromkeys(("memory", "translation-memory", "fuzzy-match"), ("--extras translation_memory=N",)),
    **dict.fromkeys(("joint", "graphones", "joint-ngrams"), ("--extras graphones=N",)),
    **dict.fromkeys(("config", "c", "yaml"), ("options are given on the command line",)),
    **dict.fromkeys(("reference", "refs", "ref", "gold-references"), ("--references",)),
    **dict.fromkeys(("hyp", "hypothesis", "hyps"), ("--hypotheses",)),
    **dict.fromkeys(("metric", "metrics"), ("--measure",)),
    **dict.fromkeys(("plot", "figure", "save-plot"), ("--png",)),
    **dict.fromkeys(("header", "fields", "cols", "column-names"), ("--columns",)),
}
_VERBS = {
    **dict.fromkeys(("learn", "fit", "preprocess", "build-vocab"), "train"),
    **dict.fromkeys(("predict", "infer", "generate", "decode", "interactive", "test", "run"), "translate"),
    **dict.fromkeys(("eval", "score", "bleu", "measure", "validate", "compare"), "evaluate"),
    **dict.fromkeys(("plot", "curves", "log", "draw"), "curve"),
    **dict.fromkeys(("alignment", "link", "links"), "align"),
    **dict.fromkeys(("show", "demo", "tell"), "explain"),
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
    value, choices = match[1].lower(), [one.strip("'\" ") for one in match[2].split(",")]
    close = [_VERBS[value]] if _VERBS.get(value) in choices else difflib.get_close_matches(value, choices, 1)
    return f"{message}; {_meant(close[0])}" if close else message


def _meant(name: str) -> str:
    return f"did you mean {name}?"
