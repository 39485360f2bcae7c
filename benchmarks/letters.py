"""Train the language model of the page of `regard show`: that of notebook 4, a fifth as large, with weights of 8 bits.

    nice python benchmarks/letters.py [--steps 3000] [--batch 8] [--out FILE]

The script runs the definitions of docs/notebooks/4-small-language-model.py with other sizes, so that text, network and
training are the notebook's; on one thread it takes some minutes. Each array is rounded to whole multiples, from
-127 to 127, of a 127th of its largest number. The loss is printed before and after. Run it in the repository.
"""

from __future__ import annotations

import argparse
import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.show.page.section import packed

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs" / "notebooks" / "4-small-language-model.py"
LETTERS = ROOT / "src" / "regard" / "show" / "page" / "assets" / "letters.json"
SIZES = {"WIDTH": 56, "HEADS": 4, "HEAD_SIZE": 14, "LAYERS": 2}
ABOUT = {
    "source": "learned from the English sentences of LibreOffice's help, data/help-en-fr of the project",
    "licence": "that text is under the Mozilla Public License 2.0, data/help-en-fr/LICENSE; none of it is in this file",
}


def definitions() -> dict[str, Any]:
    """Run what the notebook defines before it trains, and return it with the sizes of this model."""
    cells = ast.parse(NOTEBOOK.read_text(encoding="utf-8")).body
    names = [getattr(node.targets[0], "id", "") if isinstance(node, ast.Assign) else "" for node in cells]
    kept = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.Assign)
    body: list[ast.stmt] = [node for node in cells[: names.index("held_out") + 1] if isinstance(node, kept)]
    notebook: dict[str, Any] = {}
    exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), notebook)
    notebook.update(SIZES)  # which its functions read
    return notebook


def rounded(p: dict[str, NDArray[Any]]) -> tuple[dict[str, NDArray[np.int8]], dict[str, float]]:
    """Return arrays as numbers of 8 bits, and what each is multiplied by."""
    scales = {name: float(np.abs(array).max()) / 127 for name, array in p.items()}
    return {name: np.rint(array / scales[name]).astype(np.int8) for name, array in p.items()}, scales


def main() -> None:
    """Train, round, print the losses, and write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=8, help="places of the text in a step")
    parser.add_argument("--out", type=Path, default=LETTERS)
    args = parser.parse_args()
    notebook = definitions()
    notebook["windows"].__defaults__ = (args.batch,)
    p = notebook["learn"](args.steps, report=max(1, args.steps // 20))
    small, scales = rounded(p)
    back = {name: array * np.float32(scales[name]) for name, array in small.items()}
    losses = [round(float(notebook["loss"](each, notebook["held_out"])[0]), 4) for each in (p, back)]
    print(
        f"{sum(array.size for array in p.values()):,} parameters, loss {losses[0]}, with 8 bits {losses[1]}"
    )
    data = {
        **ABOUT,
        "made": f"python benchmarks/letters.py --steps {args.steps} --batch {args.batch}",
        "loss": losses,
        "letters": "".join(notebook["vocabulary"]),
        "heads": SIZES["HEADS"],
        "layers": SIZES["LAYERS"],
        "length": notebook["LENGTH"],
        "arrays": [[name, list(array.shape), scales[name]] for name, array in small.items()],
        "weights": packed(np.concatenate([array.reshape(-1) for array in small.values()])),
    }
    args.out.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")
    print(f"{args.out}: {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
