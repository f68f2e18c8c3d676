"""DistDGL's heterogeneous partitions of plans with types, read by own code and by dgl."""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import long
from export_helpers import LOADERS, python_with, run

import plancc
from plancc.errors import InputError
from plancc.export import export
from plancc.export.contents import halo_rows
from plancc.interop.distdgl import DistNumbers

COUNTS = {"author": 20, "paper": 30, "venue": 5}
GRAPH = {
    ("author", "writes", "paper"): sp.random(30, 20, 0.1, "csr", rng=1),
    ("paper", "cites", "paper"): sp.random(30, 30, 0.1, "csr", rng=2),
    ("paper", "quotes", "paper"): sp.random(30, 30, 0.1, "csr", rng=3),
    ("paper", "in", "venue"): sp.random(5, 30, 0.3, "csr", rng=4),
}


@pytest.fixture(scope="module")
def plan():
    data = {
        name: {"features": np.random.default_rng(k).random((count, k + 2)).astype(np.float32)}
        for k, (name, count) in enumerate(COUNTS.items())
    }
    how = {"normalize": "none", "value_dtype": "float64", "seed": 1, "data": data}
    return plancc.compile(GRAPH, "hp", 3, **how)


def test_numbers_of_distdgl_have_every_edge_of_every_relation(plan):
    numbers = DistNumbers.of(plan)
    node_map, edge_map = numbers.ranges(), numbers.ranges(edges=True)
    vertex, number_of = {}, {}
    for name, (arrays, first) in numbers.vertex_data().items():
        for part, (start, end) in enumerate(node_map[name]):
            held = arrays["vertex"][slice(*first[part : part + 2])]
            assert (
                plan.owner()[plan.header.types.first[numbers.ntypes.index(name)] + held] == part
            ).all()
            vertex |= zip(range(start, end), held.tolist(), strict=True)
            number_of |= dict.fromkeys(range(start, end), name)
        kept = plan.vertex_data.of_type[name].features
        np.testing.assert_array_equal(arrays["feat"], kept)
    assert sorted(vertex) == list(range(55))
    found = {relation: np.zeros(matrix.shape) for relation, matrix in GRAPH.items()}
    for index, halo in enumerate(halo_rows(plan)):
        part = numbers.part(index, halo)
        own = len(part["nodes"]) - len(halo)
        assert (part["nodes"][:own] == np.arange(*plan.part_ptr[index : index + 2])).all()
        assert (part["target"] < own).all()
        source, target = part["nodes"][part["source"]], part["nodes"][part["target"]]
        ends = zip(part["edges"].tolist(), source.tolist(), target.tolist(), strict=True)
        for edge, j, i in ends:
            [relation] = [
                name
                for name, ranges in edge_map.items()
                if ranges[index][0] <= edge < ranges[index][1]
            ]
            relation = tuple(relation.split(":"))
            assert (number_of[j], number_of[i]) == (relation[0], relation[2])
            found[relation][vertex[i], vertex[j]] += plan.value[numbers.edge[edge]]
    for relation, matrix in GRAPH.items():
        np.testing.assert_array_equal(found[relation], matrix.toarray())


def test_targets_that_hold_no_types_name_one_that_does(plan, tmp_path):
    with pytest.raises(InputError, match=r"cannot hold vertex types, .*; use distdgl$"):
        export(plan, "petsc", tmp_path / "x")


@long
def test_dgl_loads_a_heterogeneous_partition(plan, tmp_path):
    python, types = python_with("dgl", "PLANCC_DGL_PYTHON"), plan.header.types
    plan.save(tmp_path / "plan.h5")
    known = {":".join(relation): matrix.toarray() for relation, matrix in GRAPH.items()}
    for name, each in plan.vertex_data.of_type.items():
        rows = plan.global_id[types.type_of(plan.global_id) == types.names.index(name)]
        known[f"features {name}"] = np.empty_like(each.features)
        known[f"features {name}"][rows - types.vertices(name).start] = each.features
        known[f"owner {name}"] = plan.owner()[types.vertices(name)]
    np.savez(tmp_path / "reference.npz", **known)
    main = "from plancc_cli.main import main; main()"
    out = tmp_path / "out"
    run(python, "-c", main, "export", tmp_path / "plan.h5", "--to", "distdgl", "-o", out)
    reference = tmp_path / "reference.npz"
    said = run(python, LOADERS / "distdgl_types.py", out / "plancc.json", reference)
    assert "loaded by dgl" in said
