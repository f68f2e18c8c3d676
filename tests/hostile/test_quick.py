"""The quick part of every attack: each thing that was found before, and some fixed new cases."""

from collections.abc import Callable, Iterator

import pytest
from cases import long

from hostile.attack import KINDS
from hostile.attacks import ATTACKS
from hostile.campaign import Campaign, Workers
from hostile.seeds import Seed, seeds_of

NEW = [
    *((name, attack.few) for name, attack in ATTACKS.items() if attack.few),
    *(pytest.param(name, attack.quick, marks=long) for name, attack in ATTACKS.items()),
]


@pytest.fixture(scope="module")
def campaign_of(tmp_path_factory) -> Iterator[Callable[..., Campaign]]:
    """Campaigns that have tried their seeds, and so many new cases; one worker serves them all."""
    kept: dict[str, Campaign] = {}
    with Workers() as workers:

        def found(name: str, trials: int = 0) -> Campaign:
            if name not in kept:
                folder = tmp_path_factory.mktemp("hostile")
                kept[name] = Campaign(ATTACKS[name], 17, folder, lambda _: None)
            more = trials - kept[name].record.next
            kept[name].run(trials=more, seconds=float("inf"), workers=workers)
            return kept[name]

        yield found


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("name", "trials"), NEW)
def test_new_cases_find_nothing(name, trials, campaign_of):
    campaign = campaign_of(name, trials)
    assert not campaign.found
    assert campaign.record.trials == trials + len(campaign.seeds)


@pytest.mark.timeout(1200)  # the watchdog of the campaign ends what hangs
@pytest.mark.parametrize("seed", seeds_of(None), ids=lambda seed: f"{seed.attack}: {seed.name}")
def test_what_was_found_stays_mended(seed: Seed, campaign_of):
    ended = campaign_of(seed.attack).seeds[seed.name]
    assert ended.split(":")[0] not in KINDS, f"{seed.entry['what']}: {ended}"


def test_every_seed_has_its_attack():
    assert {seed.attack for seed in seeds_of(None)} <= {*ATTACKS}
