"""Train a small model from letters to sounds, and write how it pronounces words that it has not learned as a page.

    python docs/sounds.py PAGE.html

The words are a tenth of CMUdict (data/cmudict). It takes less than a minute; `make docs` does it for the site.
"""

from __future__ import annotations

import sys
from pathlib import Path

from regard.seq2seq import Seq2Seq
from regard.show import HtmlPage
from regard.show.page.alignment import alignment, sentence

WORDS = Path(__file__).parents[1] / "data" / "cmudict" / "words.dict"
SHOWN = ("attention", "translation", "photograph", "knight", "thought", "psychology")
SIZES = {"embedding": 32, "encoder": 48, "decoder": 64, "style": "bahdanau"}


def page(epochs: int = 8) -> HtmlPage:
    """Return the page of a model that learns so many times from all words but those that it shows."""
    lines = (line.split() for line in WORDS.read_text(encoding="utf-8").splitlines())
    learned = {word: sounds for word, *sounds in lines if word.isalpha() and word not in SHOWN}
    model = Seq2Seq(source="characters", target="tokens", epochs=epochs, network=SIZES, seed=1)
    model.fit(list(learned), list(learned.values()))
    answers = [sentence(model.candidates([word], n_best=3)[0], name=word) for word in SHOWN]
    return HtmlPage([alignment(*answers)], title="From letters to sounds")


if __name__ == "__main__":
    page().save(sys.argv[1], force=True)
