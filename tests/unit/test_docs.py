"""docs/requirements.md and docs/cases.md are whole, and name tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

REQUIREMENTS = """
S1 S10-S11 S16-S20 S27-S29 S32-S35 S39 S40-S46 S48-S49 S59-S60 S62-S73 S75-S81 S83-S89 S93-S95
S98-S103 S109-S110 S112 S114 S127 S155-S157 S159-S164 S176 S178 S182
D1-D3 D5-D12 D19-D20 D22-D23 D25-D34
R5-R23 R32 R34-R59
"""
CASES = """
JR01 JR02 JR05 JR07 JR09 JR11 PB01 PB03 PB05 PB08 PB11 PB13 PB14 SS01 SS03 SS06 SS07 SS09 SS12
ST03 ST04 ST05 ST07 ST10 ST12 ST14 ST16 LC01 LC03 LC05 LC07 LC09 HP01 HP03 AU01 AU06 VE01
GR02 GR03 GR06 GR07 GR10 GR12 SD01 SD03 SD05 SD07 SD10 US01 SH02 SH03 SH07 ML02 ML04 PR01 PR03
"""

_TEST = re.compile(r"`([^`]+)::([^`:]+)`")
_ROW = re.compile(rf"\| ([A-Z]+\d+) \| [^|]+ \| ({_TEST.pattern}(?:, {_TEST.pattern})*) \|")


def expand(ids: str) -> list[str]:
    """Ids, with ranges written out."""
    found = []
    for word in ids.split():
        first, _, last = word.partition("-")
        if not last:
            found.append(first)
            continue
        letter = first[0]
        found += [f"{letter}{n}" for n in range(int(first[1:]), int(last[1:]) + 1)]
    return found


def rows(page: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """The id of each row of a page, and its tests: (file, name)."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    table = [line for line in lines if line.startswith("| ") and not line.startswith("| row")]
    found = [_ROW.fullmatch(line) for line in table]
    odd = [line for line, row in zip(table, found, strict=True) if row is None]
    assert not odd, f"rows of another form: {odd}"
    return [(row[1], _TEST.findall(row[2])) for row in found if row is not None]


@cache
def known_tests(file: str) -> dict[str, str]:
    """The tests of a file below tests/, with their docstrings."""
    tree = ast.parse((ROOT / "tests" / file).read_text())
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


@pytest.mark.parametrize(
    ("page", "ids"), [("requirements.md", REQUIREMENTS), ("cases.md", CASES)], ids=str.split
)
def test_every_row_is_there(page: str, ids: str) -> None:
    """Each row once, none too many."""
    assert sorted(row[0] for row in rows(page)) == sorted(expand(ids))


@pytest.mark.parametrize("page", ["requirements.md", "cases.md"])
def test_every_test_exists(page: str) -> None:
    """Each test that a row names is there, and names the row."""
    wrong = []
    named = [(row, *test) for row, tests in rows(page) for test in tests]
    for row, file, name in named:
        if not (ROOT / "tests" / file).is_file() or name not in known_tests(file):
            wrong.append(f"{row}: there is no {file}::{name}")
        elif not re.search(rf"\b{row}\b", spelled_out(known_tests(file)[name])):
            wrong.append(f"{row}: {file}::{name} does not name it")
    assert not wrong, "\n".join(wrong)


def spelled_out(docstring: str) -> str:
    """With ranges such as S66-S70 written out."""
    return re.sub(r"\b([SRD]\d+)-([SRD]\d+)\b", lambda found: " ".join(expand(found[0])), docstring)
