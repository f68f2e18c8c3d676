"""`import plancc`, and the Python API as the README and the package's docstring show it."""

import subprocess
import sys

import numpy as np
import pytest

import plancc

GRAPH = """%%MatrixMarket matrix coordinate pattern general
6 6 8
1 2
2 1
2 3
3 4
4 5
5 6
6 1
6 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "graph.mtx").write_text(GRAPH)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_api_of_the_docstring(folder):
    plan = plancc.compile("graph.mtx", model="hp", num_parts=4)
    assert isinstance(plan, plancc.Plan)
    assert plan.metrics().volume > 0
    for m in range(4):
        for peer in range(4):
            mask = plan.part(m).send_mask(peer)
            assert mask.dtype == np.int32
            assert len(mask) == len(plan.part(peer).expand.receive.message(m))
    digest = plan.save("plan.h5")
    again = plancc.load("plan.h5")
    assert again.save("again.h5") == digest
    assert plancc.verify(again) == plancc.verify(plan)
    assert plancc.verify_file("plan.h5", plancc.read_graph("graph.mtx"))


def test_everything_public_is_there():
    for name in plancc.__all__:
        assert getattr(plancc, name) is not None
    assert set(plancc.__all__) <= set(dir(plancc))
    assert plancc.__version__
    with pytest.raises(AttributeError, match="no attribute 'partition'"):
        plancc.partition  # noqa: B018


def test_nothing_is_imported_that_is_not_used(folder):
    """Nothing heavy by `import plancc`; no runtime and no partitioner by a model without one."""
    code = """
import sys
import plancc
dir(plancc), plancc.__version__, plancc.InputError
foreign = "torch mpi4py networkx mtkahypar kahypar pymetis kaminpar click rich plancc_runtime"
heavy = foreign + " numba h5py scipy numpy"
print(*[name for name in heavy.split() if name in sys.modules])
plancc.compile("graph.mtx", model="block", num_parts=2).save("plan.h5")
plancc.verify_file("plan.h5")
print(*[name for name in foreign.split() if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_errors_are_one_family():
    for name in ("InputError", "PlanError", "OutputError", "BackendUnavailable", "BackendError"):
        assert issubclass(getattr(plancc, name), plancc.PlanccError)
    assert issubclass(plancc.PlanccWarning, UserWarning)


def test_a_plan_says_what_it_is(folder):
    plan = plancc.compile("graph.mtx", model="block", num_parts=2)
    assert repr(plan).startswith("<Plan of 2 parts, row layout: ")
    assert len(repr(plan)) < 200
    assert plan.content_sha256() == plan.save("plan.h5")
    assert repr(plancc.read_graph("graph.mtx")).startswith("<Graph graph.mtx: ")


@pytest.mark.parametrize("parts", [2.0, 2.5, "2", True, None])
def test_a_number_of_parts_is_an_integer(folder, parts):
    with pytest.raises(plancc.InputError, match="a whole number is needed"):
        plancc.compile("graph.mtx", model="rp", num_parts=parts)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dims": 5}, "`dims` 5: whole numbers are needed"),
        ({"dims": "5,3"}, "`dims` '5,3': whole numbers are needed"),
        ({"capacities": 3}, "`capacities` 3: a list of numbers above 0 is needed"),
        ({"machine": 5}, "`machine` 5: a machine is needed, its name or its file"),
        ({"topology": 5}, "`topology` 5: nodes x ranks are needed, as '4x8'"),
        ({"keys": 5}, "`keys` 5: a mapping of names to values is needed"),
        ({"stop": 5}, "`stop` 5: a function is needed"),
        ({"balance": 5}, "`balance` 5: a text is needed"),
        ({"effort": 5}, "unknown effort '5'; choose from fast"),
    ],
)
def test_options_of_another_type(folder, given, words):
    with pytest.raises(plancc.InputError, match=words):
        plancc.compile("graph.mtx", num_parts=2, **given)


def test_a_plan_that_is_open_elsewhere_in_the_process(folder):
    import h5py

    plan = plancc.compile("graph.mtx", model="block", num_parts=2)
    plan.save("plan.h5")
    with h5py.File("plan.h5", "r"):
        assert plancc.load("plan.h5").content_sha256() == plan.content_sha256()
