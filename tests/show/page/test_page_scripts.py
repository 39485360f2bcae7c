"""Names of scripts and classes of styles: none is unknown, none is left over."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard.show.page import parts

RULES = {
    "correctness": dict.fromkeys(("noUndeclaredVariables", "noUnusedVariables"), "error"),
    "suspicious": {"noRedeclare": "error"},
}
ASSETS = Path(parts.__file__).parent / "assets"


def test_names_of_all_scripts_are_known_used_and_different(tmp_path: Path) -> None:
    """All scripts together, as a page with every view joins them: names of one are seen by the others."""
    biome = Path(sys.prefix, "node_modules", ".bin", "biome")
    if not biome.exists():
        pytest.skip("no biome in the environment: make .venv/biome installs it by npm")
    linter = {"rules": {"recommended": False, **RULES}}
    (tmp_path / "biome.json").write_text(json.dumps({"linter": linter}))
    (tmp_path / "all.js").write_text(parts.script([part.name for part in parts.PARTS]), encoding="utf-8")
    done = subprocess.run([biome, "lint", "all.js"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_class_of_a_style_is_given_somewhere() -> None:
    source = ASSETS.parents[2]
    files = [*ASSETS.rglob("*.js"), ASSETS / "template.html", *source.glob("seq2seq/export/app/*.*")]
    words = set(
        re.findall(
            r"[A-Za-z][\w-]*", "".join(file.read_text("utf-8") for file in files if file.suffix != ".css")
        )
    )
    styles = {
        name: re.sub(r"/\*.*?\*/|\{[^{}]*\}", " ", parts.asset(name), flags=re.DOTALL)
        for name in (f"{style}.css" for part in parts.PARTS for style in part.styles)
    }
    for name, selectors in styles.items():
        assert set(re.findall(r"\.([A-Za-z][\w-]*)", selectors)) <= words, name


def test_every_asset_belongs_to_a_part() -> None:
    named = {f"{script}.js" for part in parts.PARTS for script in part.scripts}
    named |= {f"{style}.css" for part in parts.PARTS for style in part.styles}
    found = {
        path.relative_to(ASSETS).as_posix() for path in ASSETS.rglob("*") if path.suffix in (".js", ".css")
    }
    assert named | {"frame.js"} == found
