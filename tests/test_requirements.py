"""Every requirement that is built is named by a test.

R: a requirement of the founding documents.

    R1 R2 R3 R4 R6 R8 R9 R10 R11 R12 R13 R14 R15 R16 R19 R20 R21 R22 R23 R24 R25 R26 R27 R29 R30 R31 R32 R34 R35 R37
    R38 R39 R40 R41 R43 R44 R45 R47 R48 R49 R50 R51 R52 R53 R54 R55 R56 R57 R58 R59 R61 R62 R63 R64 R65 R66 R67 R69 R70 R72 R73
    R75 R77 R78 R79 R80 R81 R82 R83 R84 R85 R86 R88 R89 R91 R92 R93 R94 R95 R96 R97 R98 R99 R100 R102

D: a decision where they disagree.

    D1 D2 D3 D4 D5 D6 D7 D8 D9 D10 D11 D12 D13 D14 D15 D16 D17 D18

E: a bug that some real system shipped.

    E1 E2 E3 E4 E5 E6 E7 E8 E9 E10 E11 E12 E13 E14 E15 E16 E17 E18 E19 E20 E21
    E22 E23 E24 E25 E26 E27 E28 E29 E30 E31 E32 E33 E34 E35 E36 E37 E38 E39 E40 E41
    E42 E43 E44 E45 E46 E47 E48 E49 E50 E51 E52 E53 E54 E55 E56 E57 E58 E59 E60 E61 E62
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent

assert __doc__ is not None
BUILT = [name for line in __doc__.splitlines() if line.startswith("    ") for name in line.split()]


def _named() -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in HERE.rglob("test_*.py") if path != Path(__file__))
    return {name for text in texts for name in re.findall(r"\b[RDE]\d{1,3}\b", text)}


NAMED = _named()


@pytest.mark.parametrize("line", BUILT)
def test_is_named_by_a_test(line: str) -> None:
    assert line in NAMED
