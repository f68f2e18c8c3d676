"""How the newest plan file in this folder was made. Run once per format version, never again:

    python tests/golden/make.py

Later versions of plancc must read the files that earlier ones wrote, so an existing file is never
replaced. edges-1.10.h5 is data-1.9.h5 with features
of edges, links-1.10.h5 row-1.7.h5 with
links. data-1.9.h5 is typed-1.8.h5 with vertex data by type. parallel-1.9.h5 has a second
relation from authors to papers. typed-1.8.h5 has types and relations, made, as that one, by
``plancc.compile(relations(), "file", 3, normalize="row", part=OWNER)`` under
SOURCE_DATE_EPOCH=1700000000. The others have the same owners of rows.
targets-1.8.h5 is plan-1.7.h5 with real targets.
plan-1.7.h5 is plan-1.6.h5 with hops for two nodes, of two ranks and of one. plan-1.6.h5 is
plan-1.5.h5, loaded and saved again, and pieces-1.6.h5 the same in pieces, which are read no more:
the head and the first piece. plan-1.5.h5 is an edge plan, by ``lower`` with the nonzeros (1, 2),
(1, 3) at part 1, (3, 0) at part 2 and (3, 1) at part 0. row-1.7.h5 is a row plan,
made under SOURCE_DATE_EPOCH=1700000000 by
``plancc.compile(graph(), model="file", num_parts=3, normalize="row", data=data(), part=OWNER)``
with labels in place of targets and without clusters;
grid-1.7.h5 is such a plan with targets and clusters, on a grid.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import plancc
from plancc.graph.graph import Source
from plancc.graph.links import read_links
from plancc.graph.vertexdata import DataByType
from plancc.plan.lowering import with_links
from plancc.plan.matrix import ends_of

HERE = Path(__file__).resolve().parent
OWNER = [0, 0, 1, 1, 2, 2, 0]
EDGES = [(1, 2), (1, 3), (2, 4), (3, 0), (3, 1), (5, 0), (0, 6)]  # row i needs row j


def graph() -> plancc.Graph:
    """Seven vertices; vertex 4 is needed by one other, vertex 6 uses itself only."""
    row, column = (np.array(ends) for ends in zip(*sorted(EDGES), strict=True))
    return plancc.Graph(
        indptr=np.searchsorted(row, np.arange(8)).astype(np.int64),
        indices=column.astype(np.int32),
        values=np.arange(1.0, 1 + len(EDGES)),
        directed=True,
        original_ids=np.array([10, 20, 30, 40, 50, 60, 2**40]),
        source=Source("golden.txt", sha256="0" * 64, format="edgelist"),
    )


def data() -> plancc.VertexData:
    mask = np.arange(7) % 3
    return plancc.VertexData(
        features=np.arange(14, dtype=np.float32).reshape(7, 2) / 4,
        train_mask=mask == 0,
        val_mask=mask == 1,
        test_mask=mask == 2,
        clusters=np.array([2, 0, 0, 1, 1, 2, 0], np.int32),
        targets=np.arange(28).reshape(7, 4) % 3 == 0,
    )


def relations() -> dict:
    """Three authors and four papers: who writes, and what cites what. Author 2 writes nothing."""
    writes = np.array([[0, 0, 1], [0, 1, 3]])
    cites = np.array([[1, 2, 3], [0, 0, 2]])
    return {
        "author": 3,
        "paper": 4,
        ("author", "writes", "paper"): writes,
        ("paper", "by", "author"): writes[::-1],
        ("paper", "cites", "paper"): cites,
    }


def main() -> int:
    pairs = {"train": [[0, 6, 2], [3, 1, 5]], "val": [[4], [2]], "val_target_negative": [[0, 6]]}
    pairs |= {"test": [[5, 0], [0, 5]], "test_target_negative": [[1, 2], [6, 4]]}
    links = read_links(pairs, graph())
    linked = with_links(plancc.load(HERE / "row-1.7.h5"), *links.columns(), links.per_link)
    plan = plancc.load(HERE / "plan-1.7.h5")
    numbers = np.arange(14, dtype=np.float32).reshape(7, 2) / 8 - 0.5
    numbers[3] = np.nan
    real = replace(plan.vertex_data, targets=numbers[plan.global_id])
    targets = replace(plan, vertex_data=real)
    author = plancc.VertexData(features=np.arange(6, dtype=np.float32).reshape(3, 2) / 4)
    paper = plancc.VertexData(
        features=np.eye(4, dtype=np.float16),
        labels=np.array([0, -1, 1, 2], np.int32),
        train_mask=np.array([True, False, True, False]),
    )
    typed = plancc.load(HERE / "typed-1.8.h5")
    data = DataByType.of({"author": author, "paper": paper}, typed.header.types, np.arange(7))
    by_type = plancc.VertexData(by_type=data).take(typed.global_id)
    with_data = replace(typed, vertex_data=by_type)
    likes = {("author", "likes", "paper"): np.array([[0, 0, 2], [1, 2, 3]])}
    parallel = plancc.compile(relations() | likes, "file", 3, normalize="row", part=OWNER)
    made = {"targets-1.8.h5": targets, "data-1.9.h5": with_data, "parallel-1.9.h5": parallel}
    edges = plancc.load(HERE / "data-1.9.h5")
    features = np.stack(ends_of(edges), axis=1).astype(np.float32) / 4
    made |= {"links-1.10.h5": linked, "edges-1.10.h5": replace(edges, edge_features=features)}
    for name, each in made.items():
        if (HERE / name).exists():
            print(f"{HERE / name} exists and stays as it is", file=sys.stderr)
            continue
        print(each.save(HERE / name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
