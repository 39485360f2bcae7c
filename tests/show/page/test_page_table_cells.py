"""Cells of tables for spreadsheets: no text is a formula, numbers stay numbers, and every text can be read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard._characters import as_cell, of_cell
from regard.commands.array_files import read_table
from regard.show import page

FORMULAS = ["=1+1", "+1;2", "-ing", "@x", '=HYPERLINK("x")', "-", "'=a", "\uff1d1", "-1+2", "=1\u00a02"]
NUMBERS = ["-5", "+3", "-0.25", "-1e-3", "-.5", "1"]
STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


@pytest.mark.parametrize("text", [*FORMULAS, "\t=1", "\r=1"])
def test_a_text_that_a_spreadsheet_would_run_begins_with_an_apostrophe(text: str) -> None:
    assert as_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", [*NUMBERS, "a=b", "", "1+1", "'quoted'", "\u2212ing"])
def test_numbers_and_other_texts_stay(text: str) -> None:
    assert as_cell(text) == text


@given(st.text(st.sampled_from([*"'=+-@\t\n15.e", "\uff1d"])))
def test_every_cell_is_read_back(text: str) -> None:
    cell = as_cell(text)
    assert of_cell(cell) == text
    assert not cell.startswith(STARTS) or float(cell) == float(text)


@pytest.mark.slow
def test_a_page_exports_no_formula(opened: Any, tmp_path: Path) -> None:
    names, n = FORMULAS, len(FORMULAS)
    weights = np.full((n, n), -0.5)
    tab = opened(page(weights, query_labels=names, key_labels=names))
    tab.get_by_role("button", name="Export the weights").click()
    with tab.expect_download() as download:
        tab.get_by_role("menuitem", name="Numbers as CSV").click()
    path = tmp_path / "weights.csv"
    download.value.save_as(path)
    cells = [line.split(",") for line in path.read_text("utf-8-sig").splitlines()]
    for cell in (cell.strip('"') for line in cells for cell in line):
        assert not cell.startswith(STARTS) or float(cell) < 0
    assert [float(x) for x in cells[1][1:]] == [-0.5] * n
    table = read_table(path)
    np.testing.assert_array_equal(table.numbers, weights)
    assert table.rows == table.columns == [name.replace("\u00a0", " ") for name in names]
