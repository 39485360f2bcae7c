"""Many lines on the workers of a Dask cluster: `python lines.py model.safetensors "lines/*.txt" translations/`."""

import sys

import dask.bag
from distributed import Client, get_worker

from regard.seq2seq import Seq2Seq


def model_of(path):
    """Return the model of a file, which a worker loads once."""
    models = vars(get_worker()).setdefault("models", {})
    if path not in models:
        models[path] = Seq2Seq.load(path)
    return models[path]


def translate(lines, path, **options):
    """Translate a part of the lines; of names of pictures, describe them."""
    sources = [line.rstrip("\n") for line in lines]
    translations = model_of(path).translate(sources, **options)
    return [translation.text for translation in translations]


def align(lines, path, **options):
    """Return the source token that each target token attends to most, for each pair."""
    pairs = [line.rstrip("\n").split("\t") for line in lines]  # source TAB target
    sources, targets = zip(*pairs, strict=True)
    aligned = model_of(path).align(sources, targets, **options)
    return [" ".join(map(str, pair.alignment.argmax(axis=1))) for pair in aligned]


if __name__ == "__main__":
    path, lines, output = sys.argv[1:]
    with Client(threads_per_worker=1):  # on this machine; or the address of a scheduler
        bag = dask.bag.read_text(lines, blocksize=100_000)  # bytes: 2,000 lines
        bag.map_partitions(translate, path, beam=5).to_textfiles(f"{output}/*.txt")
