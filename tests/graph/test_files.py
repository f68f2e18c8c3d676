"""Files are written whole or not at all."""

import errno
import hashlib
import os

import pytest

from plancc.errors import InputError, OutputError
from plancc.files import atomic_write, sha256_of


def half_write(path, error):
    with atomic_write(path) as temporary:
        temporary.write_text("half")
        raise error


def test_replaces_the_file_when_complete(tmp_path):
    target = tmp_path / "a.h5"
    target.write_text("old")
    with atomic_write(target) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".h5"
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.h5"]


def test_mode_follows_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "a") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError, InputError])
def test_leaves_nothing_behind(tmp_path, error):
    with pytest.raises(error):
        half_write(tmp_path / "a.h5", error("stop"))
    assert os.listdir(tmp_path) == []


def test_keeps_the_old_file_on_failure(tmp_path):
    (tmp_path / "a").write_text("old")
    with pytest.raises(OutputError):
        half_write(tmp_path / "a", OSError(errno.EIO, "Input/output error"))
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "the disk is full"), (errno.EACCES, "no permission"), (errno.EDQUOT, "quota")],
)
def test_translates_system_errors(tmp_path, number, words):
    with pytest.raises(OutputError) as caught, atomic_write(tmp_path / "a.h5"):
        raise OSError(number, os.strerror(number))
    assert str(tmp_path / "a.h5") in str(caught.value)
    assert words in str(caught.value)


def test_translates_the_words_of_hdf5(tmp_path):
    with pytest.raises(OutputError, match="disk is full"), atomic_write(tmp_path / "a.h5"):
        raise RuntimeError("file write failed: error message = 'No space left on device'")


def test_full_device():
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with pytest.raises(OutputError, match="/dev/full"), atomic_write("/dev/full"):
        pytest.fail("the body must not run")


def test_refuses_before_the_body_runs(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in ("missing/a.h5", "file/a.h5", "."):
        with pytest.raises(OutputError) as caught, atomic_write(tmp_path / path):
            pytest.fail("the body must not run")
        assert str(tmp_path / path) in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OutputError, match="permission"), atomic_write(tmp_path / "a"):
            pytest.fail("the body must not run")
    finally:
        tmp_path.chmod(0o700)


def test_symbolic_links_are_followed(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with atomic_write(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_sha256(tmp_path):
    data = os.urandom(5 << 20)
    (tmp_path / "a").write_bytes(data)
    assert sha256_of(tmp_path / "a") == hashlib.sha256(data).hexdigest()
