"""The quick part of every attack: each thing that was found before, and some fixed new cases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hostile.attack import KINDS
from hostile.attacks import ATTACKS
from hostile.campaign import Campaign
from hostile.seeds import Seed, seeds_of

SEEDS = [seed for name in ATTACKS for seed in seeds_of(name)]


@pytest.fixture(scope="module")
def campaign_of(tmp_path_factory) -> Callable[[str], Campaign]:
    """Runs an attack once, its seeds and its new cases: preparing it is what takes time."""
    kept: dict[str, Campaign] = {}

    def found(name: str) -> Campaign:
        if name not in kept:
            attack = ATTACKS[name]
            campaign = Campaign(attack, 17, tmp_path_factory.mktemp("hostile"), lambda _: None)
            campaign.run(trials=attack.quick, seconds=200)
            kept[name] = campaign
        return kept[name]

    return found


@pytest.mark.parametrize("name", ATTACKS)
def test_new_cases_find_nothing(name, campaign_of):
    campaign = campaign_of(name)
    assert not campaign.found
    assert campaign.record.trials == ATTACKS[name].quick + len(campaign.seeds)


@pytest.mark.parametrize("seed", SEEDS, ids=[f"{seed.attack}: {seed.name}" for seed in SEEDS])
def test_what_was_found_stays_mended(seed: Seed, campaign_of):
    ended = campaign_of(seed.attack).seeds[seed.name]
    assert ended.split(":")[0] not in KINDS, f"{seed.entry['what']}: {ended}"


def test_every_seed_has_its_attack():
    assert {seed.name for seed in SEEDS} == {seed.name for seed in seeds_of(None)}
