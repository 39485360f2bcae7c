"""The card of a model of pronunciation as a table: its data, its symbols and rules, its error rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from regard.show.terminal.text import clean, fit

__all__ = ["table"]

_COLUMNS = 120  # of a value
_NAME = 16  # columns of a name
_GROUPS = {"family": "spelling families", "word": "single words", "file": "words of a file"}


def table(card: Mapping[str, Any]) -> str:
    """Return a line for each thing that a card says; one of an untrusted file may lack any, or have something else."""
    rows = []
    for name, described in _ROWS.items():
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            rows.append(f"{name:<{_NAME}}{fit(clean(described(card)), _COLUMNS).rstrip()}")
    return "\n".join(rows)


def _text(value: Any) -> str:
    """Return a text or a number of a card; TypeError for anything else."""
    return f"{value:,}" if isinstance(value, int) else str.__str__(value)


def _words(card: Mapping[str, Any]) -> str:
    split = card["split"]
    held_out = f"{split['test']:,} held out ({_GROUPS[split['by']]})"
    parts = f"{split['train']:,} learned, {split['valid']:,} for validation, {held_out}"
    return f"{card['words']:,} with {card['entries']:,} pronunciations: {parts}"


def _listed(values: Iterable[Any]) -> str:
    texts = [*map(_text, values)]
    return f"{len(texts)}: {' '.join(texts)}"


def _rules(card: Mapping[str, Any]) -> str:
    rules = card["rules"]
    mapped = f"phones by {_text(rules['phone_map'])}, " if rules.get("phone_map") else ""
    lower = "small letters, " if rules["letters"]["lower"] else ""
    return f"{mapped}stress: {_text(rules['stress'])}; {lower}{_text(rules['letters']['normalization'])}"


def _wrong(rate: str) -> Callable[[Mapping[str, Any]], str]:
    """Return what describes an error rate: of all variants, of the first, and without stress."""

    def described(card: Mapping[str, Any]) -> str:
        held_out = card["held_out"]
        of = f" of {held_out['words']:,} held-out words, beam {held_out['beam']:,}" if rate == "wer" else ""
        parts = [
            f"{_percent(held_out['any_variant'][rate])}{of}",
            f"of the first variant {_percent(held_out['first_variant'][rate])}",
        ]
        if plain := held_out.get("without_stress"):
            parts.append(f"without stress {_percent(plain['any_variant'][rate])}")
        return "; ".join(parts)

    return described


def _by_length(card: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{_text(row['letters'])}: {_percent(row['wer'])}" for row in card["held_out"]["by_length"]
    )


def _probabilities(card: Mapping[str, Any]) -> str:
    held_out = card["held_out"]
    kept = _percent(held_out["kept_with_98_percent_right"])
    error = _percent(held_out["calibration_error"])
    return f"calibration error {error}; of the {kept} of words that are most probable, 98 % are right"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


_ROWS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "dictionary": lambda card: ", ".join(_text(file["name"]) for file in card["files"]),
    "licence": lambda card: _text(card["licence"]),
    "trained": lambda card: _text(card["date"]),
    "words": _words,
    "letters": lambda card: _listed(card["letters"]),
    "symbols": lambda card: _listed(card["symbols"]),
    "rules": _rules,
    "words wrong": _wrong("wer"),
    "phones wrong": _wrong("per"),
    "wrong by length": _by_length,
    "probabilities": _probabilities,
}
