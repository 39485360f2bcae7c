"""Redraw the pictures of the README and the documentation, in docs/images.

    python benchmarks/pictures.py [NAME ...]      all of them, or alignment, heads, length, caption, page, step

=============  ====================================================================  ==========================
picture        what it shows                                                         where
=============  ====================================================================  ==========================
alignment.png  the attention weights of the default translator for one sentence      README.md
heads.png      the cross-attention of all heads of a transformer for one sentence    docs/align.md
length.png     BLEU by sentence length, as `benchmarks/length.py` measured it        README.md
caption.png    where the captioner of `make caption` attends at each word            docs/captions.md
page.png       the page that `regard show` writes, in Chromium                       docs/show.md
step           no picture: the numbers of the decoder of `make demo` in that page    translator.json of its assets
=============  ====================================================================  ==========================

The captioner and its scenes are those of `make caption`. The other two models are trained on data/help-en-fr, for the
time that the pages specify, and saved in runs/pictures. Remove that folder to train them again.
`emoji.py --draw` draws emoji.png.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image
from report import rows
from trial import sides

from regard.cli import main as command
from regard.commands.drawing import save_alignment, save_heads
from regard.seq2seq import Images, Seq2Seq, read_pairs
from regard.show.figures import by_length, captioned, save
from regard.show.page.mechanism import of_decoder
from regard.show.page.models import translation

ROOT = Path(__file__).parents[1]
IMAGES, STATIC = ROOT / "docs" / "images", ROOT / "docs" / "_static"
MODELS = ROOT / "runs" / "pictures"
TRAIN = ROOT / "data" / "help-en-fr" / "train.tsv.gz"
LONGEST = 15  # tokens on a side
COLORS = 256  # of a PNG file with a palette, which is half as large
DARK = "#14181e"  # the ground of the site's dark theme
TRANSLATOR, STEP = ROOT / "runs" / "help-en-fr", "Open the selected file"  # of `make demo`
STEPS = ROOT / "src" / "regard" / "show" / "page" / "assets" / "translator.json"
CAPTIONER, SCENE = ROOT / "runs" / "digits", "test/00495.png"
ALIGNED = "Change the properties for the selected DDE link."
HEADS = "Click the icon to open the selected file."


def trained(name: str, *, minutes: float, **options: Any) -> Seq2Seq:
    """Return the saved model of this name; train it if there is none."""
    path = MODELS / f"{name}.safetensors"
    if not path.exists():
        model = Seq2Seq(minutes=minutes, epochs=1000, max_tokens=LONGEST, seed=1, **options)
        MODELS.mkdir(parents=True, exist_ok=True)
        model.fit(*sides(read_pairs(TRAIN))).save(path)
    return Seq2Seq.load(path)


def alignment(path: Path) -> None:
    """Draw where the default translator attends."""
    (translation,) = trained("recurrent", minutes=2.6).translate([ALIGNED])
    save_alignment(translation, path)


def heads(path: Path) -> None:
    """Draw where each head of a transformer attends in the source."""
    model = trained("transformer", minutes=3, family="transformer")
    (translation,) = model.translate([HEADS])
    save_heads(model.heads(translation), translation, MODELS, "heads")
    (MODELS / "heads-source.png").replace(path)


def length(path: Path) -> None:
    """Draw BLEU by length, with and without attention."""
    measured = rows("length")
    labels, counts, with_attention, without = (
        [row[key] for row in measured] for key in ("tokens", "sentences", "attention", "without")
    )
    lines = {"with attention": with_attention, "without": without}
    save(path, by_length(labels, lines, counts, along="tokens in the source"))


def caption(path: Path) -> None:
    """Draw where the captioner of handwritten digits attends in a scene of three."""
    model, scene = Seq2Seq.load(CAPTIONER), str(CAPTIONER / "scenes" / SCENE)
    (found,) = model.translate([scene])
    assert isinstance(model.source, Images)
    assert found.alignment is not None  # the model has attention
    picture, weights = model.source.picture(scene), found.alignment
    figure = captioned(picture, weights, found.tokens, grid=found.grid, title=found.text)
    save(path, figure)
    save(dark(path), darkened(figure))


def dark(path: Path) -> Path:
    """Return the path of a picture for dark pages; those without photographs are inverted there instead."""
    return STATIC / f"{path.stem}-dark.png"


def darkened(figure: Figure) -> Figure:
    """Give a figure the ground of the site's dark theme, and light text."""
    figure.set_facecolor(DARK)
    for text in figure.findobj(Text):
        text.set_color("white")
    return figure


def reduce(path: Path) -> None:
    """Write a PNG file with a palette instead, and print the size of any file."""
    if path.suffix == ".png":
        with Image.open(path) as image:
            image.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


def page(path: Path) -> None:
    """Draw the upper part of the page that `regard show` writes."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tools:
        command(["show", "--out", f"{folder}/page.html"])
        browser = tools.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.goto(f"file://{folder}/page.html#shares")
        tab.screenshot(path=path)
        browser.close()


def step(path: Path) -> None:
    """Write the decoder's steps for one sentence, which the page of `regard show` has."""
    model = Seq2Seq.load(TRANSLATOR)
    (best,) = model.translate([STEP])
    steps = model.decoder_steps(best)
    data = {
        "picture": translation(steps, row=2).data,
        "numbers": of_decoder(steps, row=2, with_weight=False).data,
    }
    path.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")


PICTURES: dict[str, Callable[[Path], None]] = {
    "alignment": alignment,
    "heads": heads,
    "length": length,
    "caption": caption,
    "page": page,
    "step": step,
}


def main() -> None:
    """Draw the pictures and print their sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PICTURES)}")
    names = parser.parse_args().names or list(PICTURES)
    if unknown := set(names) - set(PICTURES):
        parser.error(f"no such picture: {', '.join(sorted(unknown))}")
    for name in names:
        path = STEPS if name == "step" else IMAGES / f"{name}.png"
        PICTURES[name](path)
        for written in filter(Path.exists, (path, dark(path))):
            reduce(written)


if __name__ == "__main__":
    main()
