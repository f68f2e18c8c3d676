"""The quick part of every attack: what was found before, and some fixed cases."""

from __future__ import annotations

import pytest

from hostile.attacks import ATTACKS
from hostile.campaign import Campaign

OPEN: dict[str, str] = {}
"""Attacks that still find something, and why."""

NAMES = [
    pytest.param(name, marks=pytest.mark.xfail(reason=OPEN[name], strict=True))
    if name in OPEN
    else name
    for name in ATTACKS
]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found(name, tmp_path):
    said: list[str] = []
    attack = ATTACKS[name]
    record = Campaign(attack, 17, tmp_path, said.append).run(trials=attack.quick, seconds=200)
    assert not said, "\n".join(said)
    assert record.trials >= attack.quick
    assert record.seeds
