"""What every extra of the kit does in a model: it is saved, and shared by ensembles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.seq2seq import Ensemble, Seq2Seq

WORDS = {"walk": "W AO K", "talk": "T AO K", "walked": "W AO K T", "talks": "T AO K S", "x": "K S"}
SIZES = {"embedding": 6, "encoder": 6, "decoder": 6, "attention": 6}
OPTIONS = {"graphones": 3, "translation_memory": 1}
every_extra = pytest.mark.parametrize("name", OPTIONS)


def untrained(extras: dict[str, int], **options: Any) -> Seq2Seq:
    return Seq2Seq(
        source="characters", target="tokens", extras=extras, **{"epochs": 2, "network": SIZES, **options}
    )


def trained(extras: dict[str, int], **options: Any) -> Seq2Seq:
    return untrained(extras, **options).fit(list(WORDS), list(WORDS.values()))


@every_extra
def test_a_loaded_model_translates_and_aligns_alike(name: str, tmp_path: Path) -> None:
    model = trained({name: OPTIONS[name]})
    model.save(tmp_path / "m")
    again = Seq2Seq.load(tmp_path / "m")
    assert again.extras == {name: OPTIONS[name]}
    sources = ["walks", "chalked"]
    translations = model.translate(sources)
    assert again.translate([*sources, ""])[:2] == translations
    for one, aligned in zip(
        translations, again.align(sources, [one.text for one in translations]), strict=True
    ):
        assert aligned.retrieved == one.retrieved
        if one.ids == aligned.ids:
            assert aligned.log_probability == pytest.approx(one.log_probability, abs=1e-3)


@every_extra
def test_models_of_an_ensemble_have_the_same(name: str) -> None:
    model = trained({name: OPTIONS[name]})
    assert Ensemble([model, trained({name: OPTIONS[name]}, seed=2)]).translate(["walks"])
    for other in ({name: OPTIONS[name] + 1}, {}):
        with pytest.raises(ValueError, match=f"models must have the same {name}, or none"):
            Ensemble([model, trained(other)])


@every_extra
def test_what_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        untrained({name: 0})
    with pytest.raises(ValueError, match=r"graphones must be at most 12\. Got 13 instead\."):
        untrained({"graphones": 13})
