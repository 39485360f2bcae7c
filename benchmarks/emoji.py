"""Print how well a captioner names emoji that it has never seen: pictures that people drew, with names people wrote.

    python benchmarks/emoji.py [--epochs 24] [--seeds 1] [--draw] [--quick]

The pictures are those of Noto's colour emoji, read as 48 x 48 pixels, the names English (see `data.emoji`). Names stay
whose words are all in at least three of the names that stay: what occurs once, such as a flag, can be learned by heart,
but not recognised in a held-out picture. Three parts are held out, by lot from `SEED`, one after the other:

persons   A name such as "woman in tuxedo medium-dark skin tone" is of a person (man, woman or person), a role ("in
          tuxedo") and a tone, which may be missing. Of a fifth of the roles that at least two persons have, one person
          is held out in all tones. So the role has been seen with another person, the person in other roles.
tones     Of the other names with a tone (or two, of couples) a tenth is held out. The same figure has been seen in
          other tones.
random    A twentieth of what is left, whatever its name.

No two pictures have the same name, so nobody can name a held-out picture by finding it again: the nearest training
picture, by the sum of squared differences of pixels, always has another name. It shows how far that name is off.
Another fortieth is for validation. The models with and without attention are trained on the same four shifted copies of
each picture, for as many epochs, with the same seeds. They stay in runs/emoji, so that the next run takes a minute;
remove that folder to train anew. --draw writes docs/images/emoji.png, and one for dark pages.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from trial import header, load_or_train

from data import Emoji, emoji, run
from regard.seq2seq import Images, Seq2Seq, TrainingConfig
from regard.seq2seq.evaluation.metrics import bleu, chrf, exact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 7  # of the split
LEAST = 3  # names that have a word
SIZE, CELL = 48, 8
COPIES = 4
SIZES = {"embedding": 96, "encoder": 64, "decoder": 128}  # of the network
BATCH = 32  # pictures
SHIFT = 3  # pixels, at most, by which a copy is moved
SHARES = {"persons": 0.2, "tones": 0.1, "random": 0.05, "valid": 0.025}
PERSONS = ("man", "woman", "person")
TONE = re.compile(r" (?:medium-light|medium-dark|light|medium|dark) skin tone")
MODELS = {"with attention": True, "without attention": False}
SHOWN = 4  # pictures in the figure
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "emoji.png"
WIDTH, COLORS = 1050, 256  # pixels, and the colours of its palette

Pixels = NDArray[np.uint8]
Parts = dict[str, list[Emoji]]


class Parsed(NamedTuple):
    """The parts of a name: "woman", "in tuxedo" and " medium-dark skin tone"; of other names the person is empty."""

    person: str
    role: str
    tones: str


def parsed(name: str) -> Parsed:
    """Return the parts of a name."""
    tones = "".join(TONE.findall(name))
    person, _, role = TONE.sub("", name).partition(" ")
    return (
        Parsed(person, role, tones) if person in PERSONS and role else Parsed("", TONE.sub("", name), tones)
    )


def recurring(pictures: Sequence[Emoji]) -> list[Emoji]:
    """Leave names out that have a word of fewer than `LEAST` names, until there are none."""
    left, before = list(pictures), 0
    while len(left) != before:
        before = len(left)
        counts = Counter(word for one in left for word in set(one.name.split()))
        left = [one for one in left if all(counts[word] >= LEAST for word in one.name.split())]
    return left


def split(pictures: Sequence[Emoji]) -> Parts:
    """Hold pictures out, as described above; the rest is for training."""
    rng = np.random.default_rng(SEED)
    held = _persons(pictures, rng)

    def draw_share(part: str, condition: Callable[[Parsed], object] = bool) -> list[Emoji]:
        """Draw a share of the pictures that are left, for which the condition holds."""
        left = [one for one in pictures if one not in taken and condition(parsed(one.name))]
        chosen = rng.choice(len(left), round(SHARES[part] * len(left)), replace=False)
        drawn = [left[i] for i in sorted(chosen)]
        taken.update(drawn)
        return drawn

    taken = set(held)
    parts = {
        "persons": held,
        "tones": draw_share("tones", lambda name: name.tones),
        "random": draw_share("random"),
        "valid": draw_share("valid"),
    }
    return parts | {"train": [one for one in pictures if one not in taken]}


def _persons(pictures: Sequence[Emoji], rng: np.random.Generator) -> list[Emoji]:
    groups = defaultdict(set)
    for one in pictures:
        name = parsed(one.name)
        if name.person:
            groups[name.role].add(name.person)
    roles = sorted(role for role, persons in groups.items() if len(persons) > 1)
    some = rng.choice(len(roles), round(SHARES["persons"] * len(roles)), replace=False)
    held = {(sorted(groups[roles[i]])[rng.integers(len(groups[roles[i]]))], roles[i]) for i in sorted(some)}
    return [one for one in pictures if parsed(one.name)[:2] in held]


def shifted(picture: Pixels, rng: np.random.Generator) -> Pixels:
    """Move a picture by a few pixels, on white."""
    padded = np.pad(picture, ((SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)), constant_values=255)
    row, column = rng.integers(2 * SHIFT + 1, size=2)
    return padded[row : row + SIZE, column : column + SIZE]


class Data(NamedTuple):
    """Pictures (SIZE, SIZE, 3) and names of each part."""

    pictures: Mapping[str, list[Pixels]]
    names: Mapping[str, list[str]]

    @classmethod
    def of(cls, parts: Parts) -> Data:
        """Read the pictures of all parts."""
        source = Images(SIZE, SIZE, channels=3, cell=CELL)
        read = {
            part: [np.asarray(source.picture(one.picture), np.uint8) for one in some]
            for part, some in parts.items()
        }
        return cls(read, {part: [one.name for one in some] for part, some in parts.items()})


def trained(data: Data, *, epochs: int, attention: bool, seed: int) -> Seq2Seq:
    """Return a model of shifted copies; train it if there is none yet."""
    source, rng = Images(SIZE, SIZE, channels=3, cell=CELL), np.random.default_rng(seed)
    model = Seq2Seq(
        source=source,
        attention=attention,
        epochs=epochs,
        min_count=1,
        network=SIZES | ({"attention": 64} if attention else {}),
        training=TrainingConfig(
            batch_tokens=BATCH * source.grid[0] * source.grid[1],
            dropout=0.1,
            label_smoothing=0.0,
            keep="last",
        ),
        seed=seed,
    )

    def train() -> Seq2Seq:
        copies = [shifted(picture, rng) for _ in range(COPIES) for picture in data.pictures["train"]]
        valid = data.pictures["valid"], data.names["valid"]
        return model.fit(copies, data.names["train"] * COPIES, valid=valid)

    return load_or_train(f"emoji/{'attention' if attention else 'without'}-{epochs}-{seed}", train)


def nearest(data: Data, part: str) -> list[str]:
    """Return for each picture of a part the name of the training picture whose pixels are nearest."""
    known, queries = (
        np.stack(data.pictures[name]).reshape(-1, SIZE * SIZE * 3) / np.float32(255)
        for name in ("train", part)
    )
    # |a - b|^2 without |a|^2, which is the same for all b
    distances = np.square(known).sum(1) - 2 * (queries @ known.T)
    return [data.names["train"][i] for i in distances.argmin(1)]


def figures(predicted: Sequence[str], names: Sequence[str]) -> NDArray[np.float64]:
    """Return exact match, BLEU and chrF, in percent."""
    return np.array(
        [100 * exact(predicted, names), bleu(predicted, names).score, chrf(predicted, names).score]
    )


def row(part: str, name: str, scores: Sequence[NDArray[np.float64]], rest: str = "") -> None:
    """Print the means of some scores, and how far apart they are."""
    mean, spread = np.mean(scores, axis=0), np.ptp(scores, axis=0)
    apart = (f" ({one:.1f})" if len(scores) > 1 else "" for one in spread)
    cells = "".join(f"{f'{one:.1f}{more}':>14}" for one, more in zip(mean, apart, strict=True))
    print(f"{part:<10}{name:<20}{cells}{rest}", flush=True)


def report(data: Data, models: Mapping[str, list[Seq2Seq]]) -> None:
    """Print the scores on everything held out, and on as many training pictures."""
    print(f"{'part':<10}{'':<20}{'exact %':>14}{'BLEU':>14}{'chrF':>14}")
    for part in ("persons", "tones", "random"):
        names = data.names[part]
        row(part, "nearest picture", [figures(nearest(data, part), names)])
        for name, some in models.items():
            scores = [figures(_named(model, data.pictures[part]), names) for model in some]
            row(part, name, scores)


def _named(model: Seq2Seq, pictures: Iterable[Any]) -> list[str]:
    return [translation.text for translation in model.translate(list(pictures))]


def draw(data: Data, model: Seq2Seq, path: Path) -> None:
    """Draw where a model attended in held-out pictures of as many roles, drawn by lot; for dark pages, too."""
    from pictures import DARK, dark, darkened

    from regard.show.figures import captioned

    rng, by_role = np.random.default_rng(SEED), defaultdict(list)
    for i, name in enumerate(data.names["persons"]):
        by_role[parsed(name).role].append(i)
    figures = []
    for role in rng.permutation(sorted(by_role))[:SHOWN]:
        i = int(rng.choice(by_role[role]))
        picture = data.pictures["persons"][i]
        (found,) = model.translate([picture])
        title = f"{data.names['persons'][i]}, named: {found.text}"
        assert found.alignment is not None  # the model has attention
        drawn = captioned(picture, found.alignment, found.tokens, grid=found.grid, title=title, columns=10)
        figures.append(drawn)
    save_sheet(figures, path, "white")
    save_sheet([darkened(figure) for figure in figures], dark(path), DARK)


def save_sheet(figures: Sequence[Figure], path: Path, ground: str) -> None:
    """Save figures below each other."""
    from PIL import Image

    from regard.show.figures import save

    with tempfile.TemporaryDirectory() as folder:
        drawings = []
        for i, figure in enumerate(figures):
            file = Path(folder, f"{i}.png")
            save(file, figure)
            drawings.append(Image.open(file).convert("RGB"))
    sheet = Image.new(
        "RGB", (max(one.width for one in drawings), sum(one.height for one in drawings)), ground
    )
    top = 0
    for one in drawings:
        sheet.paste(one, (0, top))
        top += one.height
    sheet.thumbnail((WIDTH, sheet.height))
    sheet.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size:,} bytes")


def main() -> None:
    """Train, measure and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=24, help="of each model (default 24)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="one model of each kind for each")
    parser.add_argument("--draw", action="store_true", help="write docs/images/emoji.png")
    parser.add_argument("--quick", action="store_true", help="one epoch, to try the script")
    args = parser.parse_args()
    epochs = 1 if args.quick else args.epochs
    data = Data.of(split(recurring(emoji())))
    counts = ", ".join(f"{len(names):,} {part}" for part, names in data.names.items())
    header(f"pictures: {counts}; {epochs} epochs of {COPIES} shifted copies")
    models = {
        name: [trained(data, epochs=epochs, attention=attention, seed=seed) for seed in args.seeds]
        for name, attention in MODELS.items()
    }
    report(data, models)
    if args.draw:
        draw(data, models["with attention"][0], FIGURE)


if __name__ == "__main__":
    run(main)
