"""include/plancc.h, and the examples in C and Fortran that use it: compiled and run."""

import re
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
import sealing
from blake3 import blake3
from cases import long
from export_helpers import LOADERS, ROOT, run, system_mpi

from plancc.plan.format import DATASETS, EXCHANGE_ARRAYS

STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def hdf5(what: str) -> list[str]:
    """What pkg-config says of HDF5; skips the test where it knows none."""
    found = None
    if shutil.which("pkg-config"):
        found = subprocess.run(["pkg-config", what, "hdf5"], capture_output=True, text=True)
    if found is None or found.returncode:
        pytest.skip("no HDF5 for C (libhdf5-dev, pkg-config)")
    return found.stdout.split()


def compiler(name: str) -> str:
    """The system's program, which goes with its mpirun; skips the test where it is missing."""
    path = f"/usr/bin/{name}"
    if not Path(path).exists():
        pytest.skip("no MPI of the system" if "mpi" in name else f"no {name} of the system")
    return path


def built(name: str, source: Path, program: Path) -> Path:
    """The program of a source, with the sanitisers of addresses, leaks and undefined behaviour."""
    words = [compiler(name), *STRICT, *SANITIZE, f"-I{ROOT / 'include'}", *hdf5("--cflags")]
    run(*words, source, "-o", program, *hdf5("--libs"), "-lm")
    return program


def expected(case) -> np.ndarray:
    vertex, column = np.arange(len(case.matrix))[:, None], np.arange(3)
    return case.matrix @ np.cos(0.37 * vertex + column)


def test_its_datasets_are_those_of_the_format():
    """Their types, which are offsets, and which have one digest for all parts."""
    text = (ROOT / "include" / "plancc.h").read_text()
    kinds = {"INT32": {"<i4"}, "INT64": {"<i8"}, "DOUBLE": {"<f4", "<f8"}}
    read = dict(re.findall(r'plancc__slice\(r, "(.+?)", H5T_NATIVE_(\w+)', text))
    offsets = set(re.findall(r'plancc__offsets\(r, "(.+?)"', text))
    assert re.findall(r'"expand/%s_(\w+)"', text) == ["peer", "ptr", "row_ptr", "row"]
    for name in (f"expand/{side}_{each}" for side in ("send", "recv") for each in EXCHANGE_ARRAYS):
        read[name] = "INT64" if name.endswith("ptr") else "INT32"
        offsets |= {name} if name.endswith("ptr") else set()
    read |= dict.fromkeys(offsets, "INT64")
    assert len(read) == 15
    assert all(kinds[kind] == {*DATASETS[name].dtypes} - {"|S"} for name, kind in read.items())
    assert offsets == {name for name in read if DATASETS[name].ends}
    (shared,) = re.findall(r"shared\[\] = \{(.*?)\}", text, re.DOTALL)
    assert {*re.findall(r'"(.+?)"', shared)} == {n for n in read if not DATASETS[n].cut}


def test_the_example_in_c(case, tmp_path):
    mpirun = system_mpi()
    program = built("mpicc", ROOT / "examples/c/spmm.c", tmp_path / "spmm")
    said = run(
        *mpirun, program, case.path, tmp_path / "product", ASAN_OPTIONS="detect_leaks=0"
    )  # MPI leaks
    assert said == "61 rows on 4 ranks, largest difference to the serial product 0\n"
    product = np.loadtxt(tmp_path / "product").reshape(-1, 3)
    np.testing.assert_allclose(product, expected(case), rtol=1e-12, atol=1e-13)


@long
def test_the_example_in_fortran(case, tmp_path):
    mpirun, program, part = system_mpi(), tmp_path / "spmm_f", tmp_path / "plancc_c.o"
    include = [f"-I{ROOT / 'include'}", *hdf5("--cflags")]
    fortran = ROOT / "examples" / "fortran"
    run(compiler("mpicc"), *STRICT, *include, "-c", fortran / "plancc_c.c", "-o", part)
    words = [compiler("mpif90"), "-Wall", f"-J{tmp_path}", fortran / "spmm.f90", part]
    run(*words, "-o", program, *hdf5("--libs"), "-lm")
    assert run(*mpirun, program, case.path, tmp_path / "product") == "61 rows on 4 ranks\n"
    product = np.loadtxt(tmp_path / "product").reshape(-1, 3)
    np.testing.assert_allclose(product, expected(case), rtol=1e-12, atol=1e-13)


@pytest.fixture(scope="module")
def failing_exchange(tmp_path_factory) -> Path:
    program = tmp_path_factory.mktemp("exchange") / "failing_exchange"
    return built("mpicc", LOADERS / "failing_exchange.c", program)


@long
@pytest.mark.parametrize(
    ("call", "number", "words"),
    [
        ("none", 0, "0 "),
        ("size", 0, "1 plancc_exchange: MPI failed: no valid communicator"),
        ("commit", 0, "1 plancc_exchange: MPI failed: call MPI_Abort"),
        ("receive", 0, "1 plancc_exchange: MPI failed: call MPI_Abort"),
        ("receive", 1, "1 plancc_exchange: MPI failed: call MPI_Abort"),
        ("send", 0, "1 plancc_exchange: MPI failed: call MPI_Abort"),
        ("send", 1, "1 plancc_exchange: MPI failed: call MPI_Abort"),
        ("wait", 0, "1 plancc_exchange: MPI failed: call MPI_Abort"),
    ],
)
def test_errors_of_mpi_are_returned(case, failing_exchange, call, number, words):
    said = run(
        *system_mpi(), failing_exchange, case.path, call, number, ASAN_OPTIONS="detect_leaks=0"
    )
    assert said.splitlines() == [words] * 4


@pytest.fixture(scope="module")
def read_part(tmp_path_factory) -> Path:
    return built("gcc", LOADERS / "read_part.c", tmp_path_factory.mktemp("reader") / "read_part")


def test_rows_and_ids(case, read_part):
    found = "".join(run(read_part, case.path, part) for part in range(4))
    vertex, original = np.array(found.split(), dtype=int).reshape(-1, 2).T
    np.testing.assert_array_equal(original, case.ids[vertex])
    assert sorted(vertex) == list(range(61))
    assert (np.diff(case.owner[vertex]) >= 0).all()


def test_digests_are_blake3(tmp_path):
    program = built("gcc", LOADERS / "blake3.c", tmp_path / "blake3")
    path = tmp_path / "bytes"
    sizes = [0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, 2049, 3072, 3073, 7168, 31744, 102_400]
    for size in [*sizes, 3_000_001]:
        path.write_bytes(np.random.default_rng(size).bytes(size))
        for piece in (1 << 20, 64, 77):
            assert run(program, path, piece) == blake3(path.read_bytes()).hexdigest(), size


def damaged(case, folder: Path, damage) -> Path:
    path = folder / "damaged.h5"
    shutil.copy(case.path, path)
    with h5py.File(path, "r+") as file:
        damage(file)
    return path


def setting(name, index, value):
    def damage(file):
        file[name][index] = value

    return damage


def replacing(name, array, **how):
    def damage(file):
        del file[name]
        file.create_dataset(name, data=array, **how)

    return damage


def claiming(*names, entries, **how):
    """Datasets of which no more than the first chunk is stored."""

    def damage(file):
        for name in names:
            dtype = file[name].dtype
            del file[name]
            file.create_dataset(name, (entries,), dtype, chunks=(512,), **how)
            file[name][0] = 1
        file.attrs["num_nonzeros"] = np.int64(entries)

    return damage


def empty(file):
    del file["matrix/value"]
    file.create_dataset("matrix/value", (359,), "<f8", chunks=(64,))


def linked(file):
    file["elsewhere"] = file["matrix/value"]
    del file["matrix/value"]
    file["matrix/value"] = h5py.SoftLink("/elsewhere")


def attribute(name, value):
    return lambda file: sealing.note(file, **{name: value})


WRONG_NUMBERS = [
    (setting("matrix/column", 0, 10**6), "/matrix/column holds 1000000, which is no column"),
    (setting("matrix/column", 0, -1), "/matrix/column holds -1"),
    (setting("matrix/value", 0, np.nan), "/matrix/value is not finite"),
    (setting("rows/global_id", 0, 61), "/rows/global_id holds 61"),
    (setting("rows/part_ptr", 1, 62), "/rows/part_ptr does not hold offsets"),
    (setting("rows/part_ptr", 0, 1), "/rows/part_ptr does not hold offsets"),
    (setting("rows/num_interior", 0, 62), "/rows/num_interior is out of range"),
    (setting("matrix/row_ptr", 1, -5), "/matrix/row_ptr does not hold offsets"),
    (setting("matrix/row_ptr", 1, 2**62), "/matrix/row_ptr does not hold offsets"),
    (setting("expand/send_peer", 0, 0), "/expand/send_peer is not as the format says"),
    (setting("expand/recv_peer", 0, 4), "/expand/recv_peer is not as the format says"),
    (setting("expand/send_ptr", 1, 99), "/expand/send_ptr does not hold offsets"),
    (setting("expand/send_row_ptr", 1, 2**40), "/expand/send_row_ptr does not hold offsets"),
    (setting("expand/send_row", 0, 61), "/expand/send_row holds 61"),
]

DAMAGES = [
    (replacing("rows/global_id", np.zeros(3, "<i4")), "has 3 entries, not 61"),
    (replacing("rows/global_id", np.zeros(61, "<i8")), "/rows/global_id is of another type"),
    (replacing("matrix/value", np.zeros((359, 1))), "/matrix/value is no list"),
    (replacing("matrix/value", np.zeros(359), compression="lzf"), "/matrix/value is no list"),
    (empty, "/matrix/value is not completely stored in the file"),
    (
        claiming("matrix/value", "matrix/column", entries=2**34),
        "/matrix/column is not completely stored in the file",
    ),
    (
        claiming("matrix/column", "matrix/value", entries=2**40, compression="gzip"),
        "/matrix/column is not completely stored",
    ),
    (linked, "/matrix/value is missing, or a link"),
    (attribute("format", "other"), "not a plan of plancc"),
    (attribute("format_version", "2.0"), "plan format 2.0, and this reader knows 1.x from 1.5"),
    (attribute("format_version", "1.05"), "plan format 1.05, and this reader knows 1.x from 1.5"),
    (attribute("format_version", "1.4"), "plan format 1.4, and this reader knows 1.x from 1.5"),
    (attribute("layout", "edge"), "layout 'edge': this reader knows plans of layout 'row' only"),
    (attribute("pieces", "plan.pieces"), "a plan in pieces, which plancc 0.1.0 was the last"),
    (attribute("num_vertices", np.int64(2**40)), "attribute num_vertices is missing or out of"),
    (attribute("num_parts", np.int64(62)), "attribute num_parts is missing or out of range"),
    (attribute("num_nonzeros", np.int64(2**60)), "has 359 entries, not 1152921504606846976"),
]


def refused(read_part: Path, path: Path, part: int, words: str) -> None:
    done = subprocess.run([read_part, path, str(part)], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith(f"{path}: ")
    assert words in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(("damage", "words"), DAMAGES, ids=[words for _, words in DAMAGES])
def test_damaged_files_are_refused(case, read_part, tmp_path, damage, words):
    refused(read_part, damaged(case, tmp_path, damage), 0, words)


@pytest.mark.parametrize(
    ("damage", "words"), WRONG_NUMBERS, ids=[words for _, words in WRONG_NUMBERS]
)
def test_wrong_numbers_are_refused(case, read_part, tmp_path, damage, words):
    """Also where digests say that they are what was written."""
    path = damaged(case, tmp_path, damage)
    sealing.seal(path)
    refused(read_part, path, 0, words)


@pytest.mark.parametrize("name", ["rows/global_id", "matrix/column", "matrix/value"])
def test_a_damaged_byte_ends_no_more_than_its_part(case, read_part, tmp_path, name):
    path = tmp_path / "flipped.h5"
    with h5py.File(case.path) as file:
        start = file[name].id.get_offset()
    content = bytearray(case.path.read_bytes())
    content[start] ^= 1  # of the first entry, which is of part 0; HDF5 has no checksum of it
    path.write_bytes(content)
    refused(read_part, path, 0, f"/{name} does not have its digest: damaged")
    for part in (1, 2, 3):
        assert run(read_part, path, part) == run(read_part, case.path, part)


def test_other_files_and_parts(case, read_part, tmp_path):
    (tmp_path / "text").write_text("no HDF5")
    for path, part, words in (
        (tmp_path / "text", 0, "missing, unreadable, or no HDF5 file"),
        (tmp_path / "none", 0, "missing, unreadable, or no HDF5 file"),
        (case.path, 4, "there is no part 4: the plan has parts 0..3"),
        (case.path, -1, "there is no part -1"),
    ):
        done = subprocess.run([read_part, path, str(part)], capture_output=True, text=True)
        assert done.returncode == 1, done.stderr
        assert words in done.stdout
