"""Limits of what training has seen of pictures: measures by hand, what lies far outside, and their way into a file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard._safetensors import opened, write
from regard.seq2seq import Ensemble, Images, Seq2Seq
from regard.seq2seq.sources import restore_source
from regard.seq2seq.sources.image_limits import as_limits, limits, measures, outside

PIXELS = ("brightness", "contrast", "border", "sharpness")
SEEN = dict.fromkeys(PIXELS, (0.2, 0.4))
SMALL = {"embedding": 4, "encoder": 4, "decoder": 4, "attention": 4}


@pytest.mark.parametrize("scale", [1, 255])
def test_measures_by_hand(scale: int) -> None:
    pixels = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0.2], [0.2, 0.2, 0.2]])[..., None]
    image = pixels.astype(np.float32) if scale == 1 else np.rint(255 * pixels).astype(np.uint8)
    found = measures(image, None)
    mean = 1.8 / 12
    # the first and the last row, and the left and the right column
    assert found == pytest.approx(
        {
            "brightness": mean,
            "contrast": math.sqrt((1 + 4 * 0.04) / 12 - mean**2),
            "border": (0 + 0.6 + 0.2 + 0.4) / 14,
            "sharpness": 1,
        },
        abs=1e-6,
    )
    assert measures(image, (30, 120)) == found | {"size": 120, "proportions": 4}


def test_colours_count_each() -> None:
    pixels = np.zeros((2, 2, 3), np.uint8)
    pixels[0, 0] = 0, 255, 51
    found = measures(pixels, None)
    assert found["brightness"] == found["border"] == pytest.approx(1.2 / 12)
    assert found["sharpness"] == 1


def test_outliers_do_not_move_the_limits() -> None:
    """One picture in 401 is beyond the quantile of half a per cent, by linear interpolation."""
    values = [1.0, *[0.25] * 199, *[0.5] * 200, 0.0]
    found = limits([dict.fromkeys(PIXELS, value) for value in values])
    assert found == dict.fromkeys(PIXELS, (0.25, 0.5))


def test_sizes_are_those_of_files() -> None:
    plain, of_file = dict.fromkeys(PIXELS, 0.5), {"size": 40.0, "proportions": 2.0}
    assert limits([plain, plain | of_file]) == dict.fromkeys(PIXELS, (0.5, 0.5)) | {
        "size": (40, 40),
        "proportions": (2, 2),
    }


@pytest.mark.parametrize(
    ("value", "limit", "far"),
    [
        (0.2, (0.2, 0.4), False),
        (0.16, (0.2, 0.4), False),  # a quarter of 0.2 is 0.05
        (0.14, (0.2, 0.4), True),
        (0.44, (0.2, 0.4), False),
        (0.46, (0.2, 0.4), True),
        (0.01, (0, 0), False),  # 0.02 at least
        (0.03, (0, 0), True),
    ],
)
@pytest.mark.parametrize("name", PIXELS)
def test_far_outside(name: str, value: float, limit: tuple[float, float], far: bool) -> None:
    (*found,) = outside({name: value}, {name: limit})
    low, high = (f"{one:.3g}" for one in limit)
    assert found == [f"{name} {value} ({low} to {high} in training)"] * far


@pytest.mark.parametrize("name", ["size", "proportions"])
def test_sizes_may_be_three_times_larger_or_smaller(name: str) -> None:
    within = {name: (2.0, 4.0)}
    assert [bool(outside({name: value}, within)) for value in (0.6, 0.7, 11, 13)] == [
        True,
        False,
        False,
        True,
    ]
    assert outside({"brightness": 0.5}, within) == outside({name: 0.1}, {}) == ()


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"border": None}, ValueError, r"seen\['border'\] must be two numbers. Got None"),
        ({"border": [1.0]}, ValueError, r"must be two numbers"),
        ({"border": [1.0, 0.0]}, ValueError, r"lower limit first"),
        ({"border": [0.0, math.nan]}, ValueError, r"must be finite"),
        ({"border": [0.0, "1"]}, TypeError, r"must be a number"),
        ({"more": [0.0, 1.0]}, ValueError, r"seen must have limits of brightness"),
    ],
)
def test_other_limits_are_refused(change: dict[str, Any], kind: type[Exception], message: str) -> None:
    settings = {
        "kind": "images",
        "height": 8,
        "width": 8,
        "channels": 1,
        "cell": 4,
        "seen": {**SEEN, **change},
    }
    with pytest.raises(kind, match=message):
        restore_source(settings, {})


def test_limits_need_all_measures_of_pixels() -> None:
    with pytest.raises(ValueError, match="seen must have limits"):
        as_limits({"brightness": (0, 1)})
    with pytest.raises(TypeError, match="seen must be a mapping"):
        as_limits([0, 1])
    assert as_limits({name: [0.2, 0.4] for name in PIXELS}) == SEEN


def pictures(count: int = 40) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 60, (8, 8)).astype(np.uint8) for _ in range(count)]


def test_a_source_knows_the_pictures_that_it_is_fitted_to() -> None:
    dark = [Images(8, 8).load(picture) for picture in pictures()]
    source = Images(8, 8).fitted(dark)
    assert [source.out_of_range(one) for one in dark] == [()] * len(dark)
    inverted, empty = (
        source.out_of_range(source.load(one)) for one in (255 - pictures()[0], np.zeros((8, 8)))
    )
    assert [one.split()[0] for one in inverted] == ["brightness", "border"]
    assert [one.split()[0] for one in empty] == ["brightness", "contrast", "border", "sharpness"]
    assert Images(8, 8).out_of_range(dark[0]) == ()  # before it has seen any
    assert Images(8, 8).fitted([]) == source == Images(8, 8)  # pictures are read alike


def test_limits_come_back_from_the_file_of_a_model(tmp_path: Path) -> None:
    model = Seq2Seq(source=Images(8, 8), network=SMALL, epochs=1).fit(pictures(), ["a", "b"] * 20)
    model.save(tmp_path / "model")
    loaded, empty = Seq2Seq.load(tmp_path / "model"), np.zeros((8, 8), np.uint8)
    assert loaded.model.source.settings() == model.model.source.settings()
    doubts = loaded.warnings(empty, loaded.candidates([empty])[0])
    assert doubts == model.model.source.out_of_range(model.model.source.load(empty)) != ()
    with opened(tmp_path / "model", "model file") as file:
        settings = json.loads(file.metadata["source"])
        assert settings["seen"].keys() == {*PIXELS}
        settings["seen"] = None
        arrays: dict[str, Any] = {name: file.array(name) for name in file.tensors}
        write(tmp_path / "unlimited", arrays, {**file.metadata, "source": json.dumps(settings)})
    unlimited = Seq2Seq.load(tmp_path / "unlimited")
    assert unlimited.warnings(empty, unlimited.candidates([empty])[0]) == ()
    assert Ensemble([loaded, unlimited]).warnings(empty, unlimited.candidates([empty])[0]) == doubts


def test_a_file_of_another_size_is_unusual(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="picture files need Pillow")
    for name, shape in {"one": (8, 8), "large": (40, 40), "wide": (6, 24)}.items():
        image.fromarray(np.full(shape, 9, np.uint8)).save(tmp_path / f"{name}.png")
    one, large, wide = (Images(8, 8).load(str(tmp_path / f"{name}.png")) for name in ("one", "large", "wide"))
    source = Images(8, 8).fitted([one])
    assert (one.size, large.size, wide.size) == ((8, 8), (40, 40), (6, 24))
    assert source.out_of_range(large) == ("size 40 (8 to 8 in training)",)
    assert source.out_of_range(wide) == ("proportions 4 (1 to 1 in training)",)
