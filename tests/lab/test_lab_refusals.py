"""What commands of the lab are refused with: one sentence, and no file is written."""

import pytest
from refusals import _refused_in, check_refused, lines, refused_in

__all__ = ["_refused_in", "refused_in"]

NUMBERS = "--sweep p=2,4 --dims 8,6,4 --vertices 10000000 --nonzeros 100000000"
TABLE = {
    "rehearse": {
        "no.h5": "no.h5: no such file",
        "g.mtx": "g.mtx: is a graph, not a plan",
        "p.h5 --machine no.toml": "no.toml",
        "p.h5 --machine broken.toml": "broken.toml: machine: 'bandwidth' is missing",
        "bare.h5 --machine speeds.toml": "'speed' has 5 numbers: 6 ranks need 6",
        "p.h5 --dims 9,8,4": "the first width is 9, but the features have 5 columns",
        "p.h5 --random-features 9": "the first width is 9, but the features have 5 columns",
        "p.h5 --classes 2": "the last width is 2, but there are 4 classes",
        "bare.h5 --dims 8,6,4,2": "--dims 8,6,4,2: all hidden layers of a run have the same width",
        "bare.h5 --ranks 9": "9 ranks",
        "bare.h5 --epochs 1 --classes 9223372036854775808": "--classes",
        "bare.h5 --epochs 0": "0 is not in the range",
        "bare.h5 --hiden 8 --checkpoint x": "--hiden|--hidden",
        "bare.h5 --fold delayed": "--fold delayed needs an edge plan",
        "bare.h5 --trace bare.h5": "is used twice",
        "bare.h5 --trace none/t.json": "none",
        "bare.h5 --lr 1e30 --epochs 4": "try a smaller --lr",
    },
    "simulate": {
        "p.h5 --batch-size 20": "--batch-size is only for mini-batches; give --batches",
        "p.h5 --draw owners": "--draw is only for mini-batches",
        "p.h5 --batches 6 --draw owners": "only samplers neighbour, walk let",
        "p.h5 --batches 6 --boundary-sampling 0.5": "predicted with --boundary-sampling",
        "p.h5 --batches 0": "--batches 0: give 1 to 100,000",
        "bare.h5 --batches 2 --sampler cluster": "needs clusters",
        "edge.h5 --batches 2": "the cost of mini-batches needs a row plan",
        "g.mtx --models rp --dims 8,4": "--sweep",
        "none.mtx --sweep p=2,4 --dims 8,6,4": "none.mtx",
        "--sweep p=2,4 --dims 8,6,4": "--vertices and --nonzeros",
        "--sweep p=2,4 --dims 8,6,4 --vertices 10": "--nonzeros",
        "--sweep p=2,4 --dims 8,6,4 --vertices 10 --nonzeros 3 --models mop": "--nonzeros 3",
        f"g.mtx {NUMBERS}": "drop",
        f"{NUMBERS} --pattern": "--pattern",
        f"{NUMBERS} --models hp": "--boundary; hp=",
        f"{NUMBERS} --models hp --boundary 2:x": "'2:x'",
        f"{NUMBERS} --models hp --boundary x.h5": "x.h5",
        f"{NUMBERS} --models libra": "'libra'",
        "g.mtx --sweep p=9..15 --dims 8,4": "no power of two in 9..15",
        "g.mtx --sweep many --dims 8,4": "'many'",
    },
    "simulate g.mtx --sweep p=2,4 --dims 8,6,4": {
        "--models rp,nope": "'nope'",
        "--models rp:c=2": "unknown option of 'rp' 'c'",
        "--models rp,rp": "twice",
        "--balance cheese": "cheese",
        "--balance nnz,train": "'train'",
        "--plot s.gif": ".png, .pdf, .svg",
        "--nonzeros 10": "--vertices",
        "--per-rank": "--per-rank cannot be combined with --sweep",
        "--dtype float64": "--dtype cannot be combined with --sweep",
        "--ranks 3": "--ranks cannot be combined with --sweep",
        "--passes dead-rows": "dead-rows, which cannot be combined with --sweep",
        "--boundary-sampling 0": "--boundary-sampling cannot be combined with --sweep",
        "--model gat": "--model cannot be combined with --sweep",
        "--model-option x=1": "--model-option cannot be combined with --sweep",
        "--fold none": "--fold cannot be combined with --sweep",
        "--batches 2": "--batches cannot be combined with --sweep",
    },
    "study g.mtx --models rp -p 2 --results k.jsonl": {
        "--csv --json": "--csv and --json exclude each other; give one of them",
        "--seeds 1,x": "--seeds '1,x': give whole numbers",
        "--results e.el": "not a file of a study",
        "--plot x.bmp": "choose a name that ends in",
        "--table-columns modle": "unknown column 'modle' (did you mean model?); choose from",
        "--table-columns seed,seed": "--table-columns 'seed,seed': 'seed' is given twice",
        "--table-columns volume_ratio": "'volume_ratio' needs a --baseline",
        "--table-columns seed --csv": "--csv, which has all columns, exclude each other",
        "-p 0": "they must be from 1 to 4096",
        "--models cagnet-2d": "the study has no plan: g.mtx, cagnet-2d",
    },
    "accelerators": {
        "--machine spu": "spu: is neither a file nor a shipped accelerator",
        "--machine machine.toml": "machine.toml: ",
        "--dataset cora": "unknown data set 'cora'; choose from reddit, orkut",
        "--mask-density 1.5": "--mask-density 1.5: give a share between 0 and 1",
        "--mask-density nan": "--mask-density nan: give a share between 0 and 1",
        "--dims 7": "--dims '7': give at least two widths",
        "--symmetrize": "--symmetrize",
        "g.mtx --dataset reddit": "g.mtx and --dataset reddit exclude each other; give one",
        "no.mtx": "no.mtx: no such file",
        "no.h5": "no.h5: no such file",
        "empty.mtx": "empty.mtx",
    },
    "report": {
        "p.h5 -o p.h5": "p.h5",
        "p.h5 -o x.pdf": "x.pdf: the page is HTML; choose a name that ends in .html",
        "cut.h5 -o page.html": "cut.h5",
        "none.h5 -o page.html": "none.h5",
    },
    "partition": {
        "none.hgr -p 2 -o o.part": "none.hgr",
        "two.hgr -p 2 --part two.part -o o.part": "two.part",
        "two.hgr -p 2 --fixed none.fix -o o.part": "none.fix",
        "two.hgr -p 2 --effort some -o o.part": "some",
    },
}


@pytest.mark.parametrize(("line", "says"), lines(TABLE), ids=lambda each: each[:60])
def test_refused(line, says, refused_in):
    check_refused(line, says, refused_in)
