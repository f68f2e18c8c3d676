"""`plancc partition`: hypergraphs of files."""

import json

import numpy as np
import pytest
from cli_helpers import plancc

from plancc.graph.partvector import read_part_vector


@pytest.fixture
def ring(tmp_path):
    """A ring of 60 vertices: two parts cut two nets, of the cheap ones if these are apart."""
    costs = np.full(60, 5)
    costs[[7, 37]] = 1
    path = tmp_path / "ring.hgr"
    nets = "".join(f"{costs[k]} {k + 1} {(k + 1) % 60 + 1}\n" for k in range(60))
    path.write_text(f"60 60 1\n{nets}")
    return path


def test_a_hypergraph_is_partitioned_and_refined(ring, tmp_path):
    found, better = tmp_path / "ring.part.2", tmp_path / "better.part.2"
    fixed = tmp_path / "ring.fix"
    fixed.write_text("1\n" + "-1\n" * 59)
    done = plancc("partition", ring, "-p", 2, "--fixed", fixed, "-o", found, "--json", "-q")
    assert (done.code, done.err) == (0, "")
    facts = json.loads(done.out)
    assert (facts["connectivity"], facts["nets_cut"], facts["imbalance"]) == (2, 2, 0)
    owner = read_part_vector(found, 60)
    assert owner.tolist() == [1] * 8 + [0] * 30 + [1] * 22
    shifted = tmp_path / "shifted.part.2"
    np.savetxt(shifted, np.roll(owner, 3), fmt="%d")
    done = plancc("partition", ring, "-p", 2, "--part", shifted, "-o", better, "-q")
    assert done.out.startswith(
        f"{better}: connectivity 2, cost of the nets cut 2, imbalance 0.0000, "
    )
