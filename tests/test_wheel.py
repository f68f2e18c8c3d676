"""The wheel: its metadata, and that it holds everything that the packages need.

`make wheels` installs it on every Python that there is, and runs the demo there.
"""

import os
import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "plancc",
    "runtime/plancc_runtime",
    "cli/plancc_cli",
    "datasets/plancc_datasets",
    "lab/plancc_lab",
)


def build(folder: Path, **told: str) -> Path:
    """The wheel that is built into a folder."""
    pytest.importorskip("hatchling")
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    environment = os.environ | told
    subprocess.run(words, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build(tmp_path_factory.mktemp("wheel")))


def test_a_wheel_with_kernels_is_for_one_python(tmp_path: Path) -> None:
    """The tag is that of numba's wheel; locks stay behind."""
    (tmp_path / "some.kernel").write_bytes(b"code")
    (tmp_path / "some.lock").touch()
    path = build(tmp_path / "dist", PLANCC_KERNELS=str(tmp_path))
    wheel = zipfile.ZipFile(path)
    assert wheel.read("plancc/portable/some.kernel") == b"code"
    assert not any(name.endswith(".lock") for name in wheel.namelist())
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{python}-{python}-" in path.name
    assert "Root-Is-Purelib: false" in metadata(wheel, "WHEEL")


@pytest.mark.parametrize("folder", ["missing", ""])
def test_a_folder_without_kernels_makes_no_wheel(folder: str, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        build(tmp_path / "dist", PLANCC_KERNELS=str(tmp_path / folder))
    said = failed.value.stderr.decode()
    assert f"PLANCC_KERNELS: no kernel is in the folder {tmp_path / folder}" in said


def metadata(wheel: zipfile.ZipFile, name: str) -> str:
    (path,) = (path for path in wheel.namelist() if path.endswith(f".dist-info/{name}"))
    return wheel.read(path).decode()


@pytest.fixture(scope="module")
def described(wheel: zipfile.ZipFile) -> Message:
    return message_from_bytes(metadata(wheel, "METADATA").encode())


def test_metadata_are_complete(described: Message) -> None:
    assert described["Requires-Python"] == ">=3.11"
    assert described["License-Expression"] == "MIT"
    assert described["Author"]
    classifiers = described.get_all("Classifier", [])
    for version in ("3.11", "3.12", "3.13"):
        assert f"Programming Language :: Python :: {version}" in classifiers
    assert described.get_payload().startswith("# plancc")


def test_heavy_libraries_are_extras(described: Message) -> None:
    base = [
        re.split(r"[<>=;\[ ]", each)[0]
        for each in described.get_all("Requires-Dist", [])
        if "extra ==" not in each
    ]
    assert set(base) == {
        *("numpy", "scipy", "h5py", "blake3", "click", "rich", "numba", "networkx", "mtkahypar"),
        *("pymetis", "kaminpar", "psutil"),
    }


def test_every_file_of_the_packages_is_there(wheel: zipfile.ZipFile) -> None:
    held = set(wheel.namelist())
    for package in PACKAGES:
        folder = ROOT / package
        needed = [
            path.relative_to(folder.parent).as_posix()
            for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        ]
        assert needed
        assert set(needed) <= held, set(needed) - held
        assert f"{folder.name}/py.typed" in held
    others = {name.split("/")[0] for name in held} - {Path(each).name for each in PACKAGES}
    assert all(name.endswith(".dist-info") for name in others), others


def test_the_header_for_c_is_there(wheel: zipfile.ZipFile) -> None:
    assert wheel.read("plancc/include/plancc.h") == (ROOT / "include" / "plancc.h").read_bytes()


def test_the_programs_are_entry_points(wheel: zipfile.ZipFile) -> None:
    found = metadata(wheel, "entry_points.txt")
    assert "plancc = plancc_cli.main:main" in found
    assert "plancc-run = plancc_cli.run:main" in found
