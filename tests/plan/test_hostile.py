"""Plan files that are damaged, or made to harm: one sentence naming file and node, nothing else."""

import contextlib
import os
import re
from pathlib import Path

import damages
import h5py
import numpy as np
import plan_helpers
import pytest
import sealing
import test_file
import worlds
from cases import long, some
from scipy.sparse import csr_matrix

from plancc.errors import InputError, PlanError
from plancc.plan.format import DATASETS, MAJOR, MINOR
from plancc.plan.reader import PlanFile, load
from plancc.plan.slices import read_rank_slice
from plancc.plan.verify import verify_file
from plancc.report.plans import report
from plancc_cli.render import print_report

HIGHER = sealing.text(damages.HIGHER)

N = 40


@pytest.fixture(scope="module")
def plan_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.h5"
    plan_helpers.rich_plan(n=N).save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def edge_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.h5"
    plan_helpers.rich_plan("edge", n=N).save(path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path, plan_bytes):
    path = tmp_path / "plan.h5"
    path.write_bytes(plan_bytes)
    return path


ALL = (load, verify_file, report, lambda at: read_rank_slice(at, 1, 3))


def refused(path, words, *, by=(load,), others=ALL, error=PlanError):
    """`by` refuse the file in one line that names it and holds `words`; `others` do no worse."""
    for read in by:
        with pytest.raises(error) as caught:
            read(path)
        message = str(caught.value)
        assert type(caught.value) is error
        assert message.startswith(f"{path}: "), message
        assert words in message
        assert "\n" not in message
    for read in others:
        with contextlib.suppress(error):
            read(path)


NAMES = list(test_file.DTYPES)
FOLD = [name for name in DATASETS if name.startswith("fold/")]
MANDATORY = [name for name in NAMES if not DATASETS[name].optional]


def damaged_datasets():
    """All datasets with all damages, but a third of the wrong types; every 30th case is quick."""
    for i, name in enumerate([*NAMES, *FOLD]):
        for j, kind in enumerate(damages.DAMAGES):
            if kind not in damages.WRONG_TYPES or (i + j) % 3 == 0:
                marks = () if (i + j) % 30 == 0 else long
                yield pytest.param(name, kind, marks=marks, id=f"{name}-{kind}")


@pytest.mark.parametrize(("name", "kind"), list(damaged_datasets()))
def test_a_damaged_dataset(path, edge_bytes, name, kind):
    if name in FOLD:
        path.write_bytes(edge_bytes)
    refused(path, damages.damage(path, name, kind))


def renamed(file, name):
    file.move(name, "hidden")
    file[name] = h5py.SoftLink("/hidden")


def turned_into_a_number(file, name):
    del file[name]
    file[name] = 3


GROUPS = [
    *((name, damages.missing, f"/{name}/") for name in ("rows", "matrix", "expand")),
    *((name, damages.external_link, "") for name in ("rows", "expand", "vertex_data")),
    *((name, renamed, "") for name in ("metrics", "provenance")),
    *(
        (name, turned_into_a_number, f"/{name} is not a group")
        for name in ("rows", "expand", "vertex_data", "provenance", "metrics")
    ),
]


@some(
    lambda case, version: version == damages.VERSION or case[0] in ("expand", "metrics"),
    case=GROUPS,
    version=[damages.VERSION, damages.HIGHER],
)
def test_a_damaged_group(path, case, version):
    name, change, words = case
    path.with_name("real.h5").write_bytes(path.read_bytes())
    with h5py.File(path, "r+") as file:
        change(file, name)
        file.attrs["format_version"] = sealing.text(version)
    if change is not renamed or version != damages.VERSION:  # where "hidden" is unknown
        refused(path, words or f"/{name} is a soft or external link")


def test_link_to_a_pipe_is_not_opened(path, tmp_path):
    """Opening the other end of an external link could wait for ever."""
    os.mkfifo(tmp_path / "pipe.h5")
    with h5py.File(path, "r+") as file:
        del file["expand"]
        file["expand"] = h5py.ExternalLink("pipe.h5", "/expand")
        file.attrs["format_version"] = HIGHER
    refused(path, "/expand is a soft or external link")


def test_types_that_numpy_lacks(path):
    for make in (
        lambda file: file.create_dataset("rows/global_id", (N,), h5py.string_dtype()),
        lambda file: file.create_dataset("rows/global_id", (N,), h5py.ref_dtype),
        lambda file: file.create_dataset("rows/global_id", data=h5py.Empty("i4")),
        lambda file: h5py.h5d.create(
            file["rows"].id, b"global_id", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((N,))
        ),
    ):
        with h5py.File(path, "r+") as file:
            del file["rows/global_id"]
            make(file)
        refused(path, "/rows/global_id")


@some(lambda name: name in MANDATORY[:: len(MANDATORY) // 3], name=MANDATORY)
def test_data_that_the_file_only_claims_to_hold(path, name):
    """A few bytes of file must not become gigabytes of memory."""
    huge = 2**31 - 1
    with h5py.File(path, "r+") as file:
        file.attrs["num_vertices"] = file.attrs["num_parts"] = huge
        file.attrs["num_nonzeros"] = huge
        for other in MANDATORY:
            dtype = file[other].dtype
            size = huge + 1 if "ptr" in other else huge
            storage = {"compression": "gzip"} if other == name else {}
            del file[other]
            file.create_dataset(other, (size,), dtype, chunks=(2**20,), **storage)
    refused(path, "is not completely stored")


def test_endless_features(path):
    with h5py.File(path, "r+") as file:
        del file["vertex_data/features"]
        file.create_dataset("vertex_data/features", (N, 2**40), "<f4", chunks=(1, 2**16))
    refused(path, "/vertex_data/features is not completely stored")


def test_a_compressed_file_of_zeros_is_read(tmp_path):
    """The best that deflate can do is still taken for stored."""
    n = 2**20
    graph = worlds.graph_of(csr_matrix((n, n), dtype=np.float32))
    plan = plan_helpers.lowered(graph, np.zeros(n, np.int32), 1)
    plan.save(tmp_path / "plan.h5", compress=True)
    plan_helpers.assert_equal(load(tmp_path / "plan.h5"), plan)


HEADER = {
    "num_vertices": [2**31 - 1, N + 1, 2**62, 0, -1, "40", 40.0, [40, 40], h5py.Empty("i8"), None],
    "num_parts": [0, N + 1, 5],
    "num_nonzeros": [-1, 2**62, 1],
    "directed": [2, "yes", [1, 1], None],
    "self_loops": [-1],
    "normalization": ["columns", 3, b"\xff\xfe", None],
    "layout": ["edge", 1, [b"row", b"row"], None],
    "format": ["another-plan", 1, [b"plancc-plan"] * 2, h5py.Empty("S4"), None],
    "format_version": [
        "2.0",
        "1.4",
        "0.9",
        "1",
        "1.05",
        "01.5",
        " 1.5",
        "1.0.0",
        "one.two",
        1.0,
        [1, 0],
        None,
    ],
    "content_sha256": ["f" * 64, 7],
}
"""Values that an attribute of the header may not have; None: it is not there."""


@pytest.mark.parametrize("name", HEADER)
def test_header_attribute(path, plan_bytes, name):
    for value in HEADER[name]:
        path.write_bytes(plan_bytes)
        with h5py.File(path, "r+") as file:
            if value is None:
                del file.attrs[name]
            else:
                file.attrs[name] = sealing.text(value) if isinstance(value, str) else value
        words = ""
        if value is None:
            words = "version" if name == "format_version" else f"'{name}'"
        elif value in ("2.0", "1.4"):
            advice = "use a newer plancc" if value == "2.0" else "compile the graph again"
            words = f"format version {value}; this plancc reads 1.x from 1.5 on: {advice}"
        elif value in ("1.05", "01.5", " 1.5"):
            words = f"format version '{value.strip()}' is not MAJOR.MINOR"
        refused(path, words)


UNKNOWN = ["extra", "rows/extra", "expand/fold", "more/send_ptr", "metrics/extra"]


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_node(path, name):
    plan = load(path)
    with h5py.File(path, "r+") as file:
        file[name] = 3
    node = "more" if name.startswith("more") else name
    refused(path, f"unknown node /{node} in a plan of version {MAJOR}.{MINOR}")
    with h5py.File(path, "r+") as file:
        file.attrs["format_version"] = HIGHER
        file.attrs["more"] = sealing.text("attributes")
    sealing.seal(path)
    plan_helpers.assert_equal(load(path), plan)
    verify_file(path)


def test_unknown_header_attribute(path):
    with h5py.File(path, "r+") as file:
        file.attrs["ex\ntra"] = 1
    refused(path, f"unknown attribute 'ex tra' in a plan of version {MAJOR}.{MINOR}")


def test_a_higher_minor_version_hashes_names_that_are_not_known_here(path):
    with h5py.File(path, "r+") as file:
        file.attrs["format_version"] = HIGHER
        file["rows/extra"] = np.arange(N)
    load(path)  # what has no digest is nobody's
    sealing.seal(path)
    assert "content hash" in verify_file(path)
    with h5py.File(path, "r+") as file:
        file["digests/rows/extra"][0, 0] ^= 1
    refused(path, "content_sha256 is")


def test_unknown_node_with_a_garbled_name(path):
    with h5py.File(path, "r+") as file:
        file[b"ex\xfftra\n"] = 3
    with pytest.raises(PlanError, match="unknown node /ex") as caught:
        load(path)
    assert str(caught.value).isprintable()


def test_odd_provenance_is_no_obstacle(path):
    """A reader must not need any of it."""
    with h5py.File(path, "r+") as file:
        attributes = file["provenance"].attrs
        attributes["list"] = [1, 2]
        attributes["empty"] = h5py.Empty("f4")
        attributes["bytes"] = np.bytes_(b"\xff")
        attributes["bool"] = True
        attributes["search_seconds"] = sealing.text("soon")
    refused(path, "/provenance is damaged: the digest does not match")
    sealing.seal(path)
    found = load(path).provenance
    assert (found["list"], found["empty"], found["bool"]) == ([1, 2], None, True)
    assert found["bytes"].encode()
    verify_file(path)
    print_report(report(path), per_part=False)
    with h5py.File(path, "r+") as file:
        del file["provenance"]
        del file["metrics"]
    refused(path, "/provenance is damaged: the digest does not match")
    sealing.seal(path)
    assert load(path).provenance == {}
    assert load(path).baseline is None
    assert report(path).random.volume > 0  # computed where the file has none


def test_not_a_plan(tmp_path):
    refused(tmp_path / "none.h5", "no such file", error=InputError)
    refused(tmp_path, "not a file", error=InputError)
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "is not a regular file but a named pipe", error=InputError)
    for name, content in {
        "empty": b"",
        "text": b"%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n",
        "signature": b"\x89HDF\r\n\x1a\n",
        "zeros": bytes(10000),
    }.items():
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name, "not a plan", others=())
    with h5py.File(tmp_path / "other.h5", "w", libver="v110") as file:
        file["data"] = 3
        file.attrs["words"] = "of any length"
    refused(tmp_path / "other.h5", "not a plan: its attribute 'format' is not")


@pytest.mark.parametrize("before", [0, 512, 2048])
def test_a_container_without_checksums_is_not_opened(before, tmp_path):
    """HDF5 would read a damaged heap for ever; the container may stand after other bytes."""
    path = tmp_path / "old.h5"
    with h5py.File(path, "w", userblock_size=before) as file:
        file.attrs["format"] = "plancc-plan"
    at = path.read_bytes().index(b"GCOL")
    with path.open("r+b") as stream:
        stream.seek(at + 8)
        stream.write(bytes(8))
    refused(path, "not a plan, or is one before format 1.5 (an HDF5 file without checksums)")


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.3, 0.7, 0.99, 0.9999])
def test_truncated(path, share):
    size = path.stat().st_size
    left = min(size - 1, int(share * size))
    os.truncate(path, left)
    cut_off = f"the plan is cut off: {left:,} of {size:,} bytes are present"
    refused(path, cut_off if left > 100 else "not a plan")


def test_errors_have_no_words_of_hdf5(path, tmp_path):
    """Damage anywhere is said in the words of this project."""
    content = path.read_bytes()
    said = set()
    for at in range(100, len(content) - 8, 2999):
        damaged = bytearray(content)
        damaged[at : at + 8] = bytes(byte ^ 0x5A for byte in damaged[at : at + 8])
        (tmp_path / "damaged.h5").write_bytes(damaged)
        try:
            with PlanFile(tmp_path / "damaged.h5") as file:
                file.check_content()
        except PlanError as error:
            said.add(str(error).rpartition(": ")[2])
    assert "its checksum does not match" in said
    for words in said:
        assert not re.search("filter|heap|B-tree|object|metadata|synchronously|offset", words)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("mesh.part.4", b"0\n1\n", "not a plan but a part vector; compile it with model"),
        ("none.h5", b"", "not a plan: the file is empty"),
    ],
)
def test_what_other_files_are(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError if name.startswith("mesh") else PlanError, match=says):
        load(tmp_path / name)


def test_a_refused_file_is_closed(path):
    with h5py.File(path, "r+") as file:
        file.attrs["layout"] = sealing.text("grid")
    for _ in range(3):
        with pytest.raises(PlanError):
            PlanFile(path)
    assert not [f for f in Path("/proc/self/fd").iterdir() if os.path.realpath(f) == str(path)]


def test_no_fold(path, edge_bytes):
    path.write_bytes(edge_bytes)
    with h5py.File(path, "r+") as file:
        del file["fold"]
    refused(path, "/fold/recv_peer is missing", by=ALL, others=())


def test_a_fold_in_a_row_plan(path):
    with h5py.File(path, "r+") as file:
        file.require_group("fold")
    refused(path, "/fold is in a plan of layout 'row'", others=())


@pytest.mark.parametrize(("name", "most"), [("recv_peer", 4 * 3), ("recv_row", 3 * N)])
def test_more_than_parts_can_exchange(path, edge_bytes, name, most):
    """Refused by the size alone: nothing of it is stored."""
    path.write_bytes(edge_bytes)
    with h5py.File(path, "r+") as file:
        del file[f"fold/{name}"]
        file.create_dataset(f"fold/{name}", (most + 1,), "<i4", chunks=(4,))
    refused(path, "/fold lists", by=ALL, others=())


def test_row_ptr_of_own_rows_only(path, edge_bytes):
    path.write_bytes(edge_bytes)
    with h5py.File(path, "r+") as file:
        damages.replaced(file, "matrix/row_ptr", data=file["matrix/row_ptr"][: N + 1])
    refused(path, "/matrix/row_ptr is of size 41; the header asks for ", by=ALL, others=())
