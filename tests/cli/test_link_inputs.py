"""Links of people's daily work: what tells of them carries no messages, or is said with a count."""

import numpy as np
import pytest
import torch
from cli_helpers import plancc_run
from input_case import Case, run_case

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.plan.matrix import ends_of_links

N = 60
RANDOM = np.random.default_rng(3)
PAIRS = np.array([(u, v) for v in range(N) for u in range(v)])[RANDOM.permutation(N * (N - 1) // 2)]
EDGES, OTHERS = PAIRS[:200], PAIRS[200:]
LISTED = "".join(f"{u} {v}\n" for u, v in EDGES)
BOTH = LISTED + "".join(f"{v} {u}\n" for u, v in EDGES)
LINKS = {"train": EDGES[:160], "val": EDGES[160:180], "test": EDGES[180:]}
LINKS |= {"val_negative": OTHERS[:20], "test_negative": OTHERS[20:40]}


def links(**changes):
    """An archive of links of the edges, with other arrays in place of some."""
    held = {k: np.asarray(v).T for k, v in (LINKS | changes).items()}
    return {"g.txt": BOTH, "l.npz": lambda path: np.savez(path, **held)}


def twice(pairs):
    return np.concatenate([pairs, pairs[:4, ::-1]])


def distinct_negatives(folder):
    plan = plancc.load(folder / "p.h5")
    ends = ends_of_links(plan).T[plan.links.kind > 2].tolist()
    assert len(ends) == 2
    assert len({frozenset(pair) for pair in ends}) == 2
    assert not {frozenset(pair) for pair in ends} & {frozenset((k, k + 1)) for k in range(3)}


SPLIT = "--link-split 0.2,0.2"
LATER = "0 1 1\n1 2 1\n2 3 1\n3 4 1\n4 5 1\n5 0 1\n0 1 100\n"

CASES = [
    Case("C7 weights of earlier and later lines", {"g.txt": LATER,
         "t.csv": "1\n2\n3\n4\n5\n6\n9\n"}, "--link-times t.csv --link-split 0,0.3",
         refused="1 training edges are listed before time 6|--pattern"),
    Case("C2 one edge is there one way", {"g.txt": f"{BOTH}{OTHERS[0][0]} {OTHERS[0][1]}\n"}, SPLIT,
         says=("of 160 held-out links|400 of 401 edges have a reverse edge|--symmetrize",)),
    Case("C2 both ways", {"g.txt": BOTH}, SPLIT, silent=("warning",)),
    Case("C2 one way", {"g.txt": LISTED}, SPLIT, silent=("warning",)),
    Case("F4 links the other way round", links() | {"g.txt": LISTED}, "--links l.npz",
         says=("40 of 40 held-out links and 160 of 160 training links|0 training|--transpose reve",
         )),
    Case("F4 links of the turned edges", links() | {"g.txt": LISTED}, "--links l.npz --transpose",
         silent=("warning",)),
    Case("F5 C3 negatives are distinct", {"g.txt": "0 1\n1 0\n1 2\n2 1\n2 3\n3 2\n"},
         "--link-split 0.4,0.4 --seed 2", check=distinct_negatives),
    Case("F5 too few pairs are no edges", {"g.txt": "".join(f"{u} {v}\n{v} {u}\n" for u in range(5)
         for v in range(u) if u + v > 1)}, "--num-vertices 5 --link-split 0.4,0.4",
         refused="6 negatives are needed, but only 1 pairs of vertices have no edge"),
    Case("C5 right links, each edge once", links(), "--links l.npz", silent=("warning",)),
    Case("C5 right links, all both ways", links(train=np.concatenate([EDGES[:160],
         EDGES[:160, ::-1]])), "--links l.npz", silent=("warning",)),
    Case("C5 validation and test alike, turned round", links(val=EDGES[180:, ::-1]),
         "--links l.npz", says=("l.npz: 20 of 20 test links are validation links too",)),
    Case("C5 negatives that are edges", links(test_negative=EDGES[:20]), "--links l.npz",
         says=("l.npz: 20 of 20 test_negative pairs are links or edges",),
         silent=("val_negative pairs",)),
    Case("C5 negatives of one vertex", links(val_negative=[(v, v) for v in range(20)]),
         "--links l.npz", says=("l.npz: 20 of 20 val_negative pairs join a vertex to itself",)),
    Case("C5 negatives of both splits", links(val_negative=OTHERS[:20],
         test_negative=OTHERS[15:35]), "--links l.npz",
         says=("l.npz: 5 of 20 test_negative pairs are val_negative ones too",)),
    Case("C5 links there twice", links(train=twice(EDGES[:160])), "--links l.npz",
         says=("l.npz: 4 of 164 train links are listed twice or both ways",)),
    Case("C5 links that are no edges", links(train=OTHERS[100:200]), "--links l.npz",
         says=("l.npz: 100 of 100 train links are not edges of the graph",)),
    Case("C5 a link in every row", links(train=np.transpose(EDGES[[0, 1]])), "--links l.npz",
         refused="l.npz: train has its links in the rows|sources in one row"),
    Case("arrays that are no links", links(train_negative=OTHERS[:9], weight=np.ones(160)),
         "--links l.npz", says=("l.npz: ignored: 'train_negative', 'weight'; arrays of links are",),
         silent=("vertex numbers",)),
    Case("links of a graph whose ids are others",
         links() | {"g.txt": "".join(f"{u + 100} {v + 100}\n{v + 100} {u + 100}\n" for u,
         v in EDGES.tolist())}, "--links l.npz",
         says=("l.npz: the ends of links are read as vertex numbers|ids (100, 101, 102, 103",)),
    Case("links of text", {"g.txt": BOTH, "l.npz": lambda path: np.savez(path,
         train=np.array([["a"], ["b"]]))}, "--links l.npz",
         refused="l.npz: train is of text, shape [2, 1]; give integers|the numbers of vertices"),
    *(
        Case(f"times under a line of names, {kind}", {"g.txt": "0 1\n1 2\n2 3\n3 4\n4 5\n",
             "t.csv": f"{head}" + "5\n1\n2\n3\n4\n"}, "--link-split 0.2,0.2 --link-times t.csv",
             entries={(k, k + 1): 1.0 for k in (1, 2, 3)}, silent=("warning: t.csv",))
        for kind, head in (("one", "time\n"), ("none", ""))
    ),
    Case("C5 all links are for training", {"g.txt": BOTH,
         "l.npz": lambda path: np.savez(path, train=EDGES.T)}, "--links l.npz",
         says=("l.npz: 200 of 200 links are for training, so validation",)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_links_are_learnt_as_they_are_meant(case, tmp_path, monkeypatch):
    run_case(case, tmp_path, monkeypatch)


@pytest.mark.parametrize("stars", [5, 2])
def test_labels_of_ones_own_are_no_negatives(stars):
    """Pairs of label 0 are edges of the graph, all that there are."""
    labels, objects = np.arange(200) % stars, []
    for first, last in ((0, 160), (160, 180), (180, 200)):
        part = slice(first, last)
        pair, label = torch.tensor(EDGES[part].T), torch.tensor(labels[part])
        objects.append(type("Data", (), {"edge_label_index": pair, "edge_label": label})())
    count = np.count_nonzero(labels[:160] == 0)
    with pytest.raises(InputError, match=f"{count} of the {count} pairs of edge_label 0 of train"):
        plancc.compile((N, EDGES.T), num_parts=2, links=objects)


def test_runs_speak_of_links(tmp_path, monkeypatch):
    """Patience without validation links, missing features and negatives that are edges are told."""
    monkeypatch.chdir(tmp_path)
    with pytest.warns(PlanccWarning, match="200 of 200 links are for training"):
        plan = plancc.compile((N, EDGES.T), "rp", 1, links={"train": EDGES.T})
    plan.save("p.h5")
    refused = plancc_run("p.h5", "--patience", 3).err
    assert "--patience 3 needs a validation loss, but there are no validation links" in refused
    said = plancc_run("p.h5", "--epochs", 1).err
    assert "the plan has links but no features" in said
    assert "6% of all pairs of vertices are edges" in said


def test_scores_of_links_and_numbers_are_in_results():
    data = {"features": RANDOM.standard_normal((N, 3)).astype(np.float32)}
    both = np.concatenate([EDGES, EDGES[:, ::-1]]).T
    plan = plancc.compile((N, both), "rp", 1, data=data, link_split=(0.2, 0.2))
    trained = plancc.train(plan, epochs=3, eval_every=1)
    final = trained.result.final
    assert trained.scores["auc"] == final.auc
    assert trained.scores["mrr"] == final.mrr
    assert not trained.accuracy
    assert np.isfinite(trained.history["test_ap"]).all()
    assert trained.history["test"].tolist() == [each.auc["test"] for each in trained.result.epochs]
    data |= {"targets": data["features"][:, 0], "train_mask": np.arange(N) < 40}
    plan = plancc.compile((N, both), "rp", 1, data=data)
    trained = plancc.train(plan, epochs=2, eval_every=1)
    assert {*trained.scores} == {"rmse", "mae", "r2"}
    assert trained.history["train_r2"].tolist() == [e.r2["train"] for e in trained.result.epochs]
