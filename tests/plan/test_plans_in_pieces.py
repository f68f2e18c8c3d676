"""Plans in pieces: the same plan for every reader, and one sentence for whatever is wrong."""

import os
import shutil
import signal
import time
from dataclasses import replace
from functools import cache

import damages
import h5py
import numpy as np
import plan_helpers
import pytest
import scipy.sparse as sp
import worlds
from cases import long

import plancc
from plancc.errors import InputError, PlanError
from plancc.plan.container import Container
from plancc.plan.format import NODES
from plancc.plan.join import join
from plancc.plan.piece_writer import save_in_pieces, save_like
from plancc.plan.reader import PlanFile, load
from plancc.plan.slices import read_part, read_rank_slice

N, PARTS = worlds.N, 6


@cache
def plan_of(kind="row"):
    """A plan with vertex data, ids of its own, and an empty part."""
    plan = worlds.plan("directed", kind, PARTS)
    return replace(plan, original_id=np.arange(N)[::-1] * 10, provenance={"model": "file"})


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """A folder with a plan in three pieces, to be copied."""
    folder = tmp_path_factory.mktemp("three")
    save_in_pieces(plan_of(), folder / "plan.h5", [0, 1, 3, PARTS])
    return folder


@pytest.fixture
def pieces(three, tmp_path):
    """The head of a plan in three pieces, and its folder."""
    shutil.copytree(three, tmp_path, dirs_exist_ok=True)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    return tmp_path / "plan.h5", folder


@pytest.mark.parametrize("kind", ["edge", pytest.param("row", marks=long)])
@pytest.mark.parametrize(
    "first",
    [[0, 2, 3, 6], *(pytest.param(f, marks=long) for f in ([0, 6], [0, 1, 6], [*range(7)]))],
    ids=str,
)
def test_pieces_are_the_plan(kind, first, tmp_path):
    plan, head, one = plan_of(kind), tmp_path / "p.h5", tmp_path / "one.h5"
    content = plan.save(one)
    for compress in (False, True):
        assert save_in_pieces(plan, head, first, compress=compress)[0] == content
        read = load(head)
        assert read.provenance == plan.provenance
        plan_helpers.assert_equal(read, plan)
        assert plancc.verify_file(head)
    for rank, ranks in ((0, 1), (0, 3), (1, 3), (2, 3), (0, PARTS), (PARTS - 1, PARTS)):
        found, expected = (read_rank_slice(path, rank, ranks)[1] for path in (head, one))
        plan_helpers.assert_equal(found, expected)
    assert join(head, tmp_path / "joined.h5") == content
    assert load(tmp_path / "joined.h5").provenance == plan.provenance


def test_a_rank_opens_the_pieces_of_its_parts(pieces):
    head, folder = pieces
    (folder / "0.h5").unlink()
    (folder / "2.h5").unlink()
    with PlanFile(head) as file:
        assert file.pieces.count == 3
        part = read_part(file, 1, PARTS)  # of piece 1
    assert part.index == 1
    with pytest.raises(PlanError, match=r"piece 0 of 3 is missing: .*0\.h5"):
        read_rank_slice(head, 0, PARTS)


def test_a_grid_plan_may_be_in_pieces(tmp_path):
    plan = worlds.plan("undirected", "1d 4")
    assert save_in_pieces(plan, tmp_path / "g.h5", [0, 2, 4])[0] == plan.content_sha256()
    assert plancc.verify_file(tmp_path / "g.h5")


def change(name, dataset=None, **attributes):
    """Change a file: replace a dataset, or set attributes."""

    def work(head, folder):
        with damages.opened(folder / name if name else head) as file:
            for key, value in attributes.items():
                value = np.bytes_(value.encode()) if isinstance(value, str) else value
                file.attrs[key] = value
            if dataset is not None:
                path, array = dataset
                del file[path]
                if array is not None:
                    file.create_dataset(path, data=array)

    return work


def swapped(head, folder):
    (folder / "0.h5").rename(folder / "x")
    (folder / "1.h5").rename(folder / "0.h5")
    (folder / "x").rename(folder / "1.h5")


def of_another_plan(head, folder):
    other = replace(plan_of(), provenance={}, original_id=None)
    save_in_pieces(other, head.with_name("other.h5"), [0, 1, 3, PARTS])
    (theirs,) = (p for p in head.parent.iterdir() if p.is_dir() and p.name.startswith("other"))
    shutil.copy(theirs / "1.h5", folder / "1.h5")


def older_container(head, folder):
    with h5py.File(folder / "1.h5", "w", libver="earliest") as file:
        file.attrs["format"] = "plancc-plan-piece"


def more_than_the_plan(head, folder):
    with h5py.File(folder / "1.h5", "r+") as file:
        file["more"] = np.arange(3)


def damaged(head, folder):
    content = bytearray((folder / "1.h5").read_bytes())
    with h5py.File(folder / "1.h5") as file:
        at = file["matrix/value"].id.get_offset()
    content[at] ^= 1
    (folder / "1.h5").write_bytes(content)


WRONG = {
    "missing": (lambda head, folder: (folder / "1.h5").unlink(), "piece 1 of 3 is missing"),
    "no folder": (lambda head, folder: shutil.rmtree(folder), "piece 0 of 3 is missing"),
    "no HDF5": (lambda head, folder: (folder / "1.h5").write_text("x"), "not a plan"),
    "swapped": (swapped, "says that it is piece"),
    "of another plan": (of_another_plan, "a piece of another plan"),
    "no piece": (change("1.h5", format="plancc-plan"), "not a piece of a plan"),
    "a version": (change("1.h5", format_version="1.13"), "'format_version' is none up to 1.12"),
    "no version": (change("1.h5", format_version=1), "'format_version' is none up to"),
    "an attribute": (change("1.h5", more=1), "has 'more', which no piece of the plan has"),
    "a dataset": (more_than_the_plan, "has 'more', which no piece"),
    "an older container": (older_container, "an HDF5 file without checksums"),
    "damaged": (damaged, "the digest of part 1 does not match"),
    "folder above": (change("", pieces="../x"), "names no folder"),
    "absolute folder": (change("", pieces="/tmp"), "names no folder"),
    "hidden folder": (change("", pieces=".x"), "names no folder"),
    "a number": (change("", pieces=3), "names no folder"),
    "parts": (
        change("", ("pieces/first_part", np.array([0, 1, 1, PARTS]))),
        "a piece without parts",
    ),
    "too many parts": (
        change("", ("pieces/first_part", np.array([0, 1, 3, PARTS + 1]))),
        "/pieces/first_part is damaged",
    ),
    "falling": (
        change("", ("pieces/rows/global_id", np.array([0, 20, 10, N]))),
        "/pieces/rows/global_id is damaged",
    ),
    "hashes": (
        change("", ("pieces/content_sha256", np.zeros((2, 32), np.uint8))),
        "not one hash for each piece",
    ),
    "fewer": (
        change("", ("pieces/rows/global_id", np.array([0, N]))),
        "not one number for each piece",
    ),
    "entries in the head": (
        change("", ("rows/global_id", np.arange(N, dtype=np.int32))),
        "has entries in a plan in pieces",
    ),
    "an unknown name": (change("", ("pieces/rows/global_id", None)), "is missing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name, pieces):
    head, folder = pieces
    work, sentence = WRONG[name]
    work(head, folder)
    with pytest.raises(PlanError, match=sentence):
        load(head)


def test_a_new_plan_replaces_the_pieces_of_the_old(pieces):
    head, folder = pieces
    for plan, first in (plan_of("edge"), [0, 4, PARTS]), (plan_of("edge"), [0, PARTS]):
        content, _ = save_in_pieces(plan, head, first)
        with PlanFile(head) as file:
            before, folder = folder, head.parent / file.pieces.folder
        assert folder.name.startswith(f"plan.pieces-{content[:12]}-")
        assert not before.exists()
        assert sorted(head.parent.iterdir()) == [head, folder]
        assert len([*folder.iterdir()]) == len(first) - 1
        assert load(head).content_sha256() == content


def test_pieces_that_stay_are_not_written(pieces, tmp_path):
    """Offsets of all later parts and the header change; a damaged link cannot hide."""
    n = 12 * PARTS
    chain = sp.diags_array(np.ones((2, n)), offsets=(-1, 1), shape=(n, n)).tocsr()
    plan = plancc.compile(chain, "block", PARTS, normalize="none")
    old, new = tmp_path / "old.h5", tmp_path / "new.h5"
    save_in_pieces(plan, old, [0, 1, 3, PARTS])
    better = plancc.patch(old, add=[[2, 5]], max_moves=0, epsilon=1)
    assert save_like(better, new, old) == (better.content_sha256(), 1)
    assert plancc.verify_file(old)
    assert plancc.verify_file(new)
    plan_helpers.assert_equal(load(new), better)
    with PlanFile(old) as before, PlanFile(new) as after:
        files = [[os.stat(each.pieces.path(i)) for i in range(3)] for each in (before, after)]
        assert [a.st_ino == b.st_ino for a, b in zip(*files, strict=True)] == [False, True, True]
        shutil.copy(before.pieces.path(0), after.pieces.path(0))
    with pytest.raises(PlanError, match=r"0\.h5: a piece of another plan than .*new\.h5"):
        load(new)
    assert save_like(plan, old, old)[1] == 0  # in place, with a name for every piece
    assert load(old).content_sha256() == plan.content_sha256()
    with pytest.raises(InputError, match="is in pieces of 6 parts, and the plan has 2"):
        save_like(plancc.compile(chain, "block", 2), new, old)


def test_who_reads_a_plan_reads_it_to_the_end(pieces):
    head, folder = pieces
    with PlanFile(head) as file:
        save_in_pieces(plan_of("edge"), head, [0, 4, PARTS])
        assert not folder.exists()
        assert file.read_plan().content_sha256() == plan_of().content_sha256()
    assert load(head).content_sha256() == plan_of("edge").content_sha256()


def test_a_plan_that_is_replaced_while_it_is_opened(pieces, monkeypatch):
    """Its head is the former one, and its pieces are gone."""
    head, folder = pieces
    saved = []

    class Slow(Container):
        def __init__(self, path):
            super().__init__(path)
            if len(saved) < 3:
                saved.append(save_in_pieces(plan_of("edge"), head, [0, 4, PARTS])[0])

    monkeypatch.setattr("plancc.plan.reader.Container", Slow)
    assert load(head).content_sha256() == saved[-1] == plan_of("edge").content_sha256()
    assert len(saved) == 3
    assert not folder.exists()


@pytest.mark.parametrize("kills", [4, pytest.param(60, marks=long)])
def test_two_writers_that_are_killed(kills, tmp_path):
    """At every moment there is a plan, of one or of the other, and every reading is whole."""
    head, rng = tmp_path / "plan.h5", np.random.default_rng(kills)
    plans = {plan.content_sha256(): plan for plan in (plan_of(), plan_of("edge"))}
    cuts = [0, 1, 3, PARTS], [0, 4, PARTS], [0, PARTS], [*range(PARTS + 1)]
    save_in_pieces(plan_of(), head, cuts[0])
    writers = []
    for k in range(kills):
        for which, plan in enumerate(plans.values()):
            if len(writers) <= which:
                writers.append(None)
            if writers[which] is None:
                writers[which] = os.fork()
                if not writers[which]:
                    try:
                        while True:
                            save_in_pieces(plan, head, cuts[rng.integers(len(cuts))])
                    finally:
                        os._exit(1)
        time.sleep(rng.uniform(0, 0.1))
        assert load(head).content_sha256() in plans
        which = k % 2
        os.kill(writers[which], signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(writers[which], 0)[1]) == -signal.SIGKILL
        writers[which] = None
        assert load(head).content_sha256() in plans
        assert plancc.verify_file(head)
    os.kill(writers[1 - which], signal.SIGKILL)
    os.waitpid(writers[1 - which], 0)
    save_in_pieces(plan_of(), head, cuts[0])
    assert not [*tmp_path.glob(".*")]  # what was left is removed by the next


def test_one_file_replaces_the_pieces(pieces):
    head, _ = pieces
    plan_of("edge").save(head)
    assert [path.name for path in head.parent.iterdir()] == ["plan.h5"]


@pytest.mark.parametrize("what", ["file", "folder", "link", "linked"])
def test_a_folder_with_anything_else_stays(what, pieces):
    head, folder = pieces
    if what == "file":
        (folder / "notes.txt").write_text("mine")
    elif what == "folder":
        (folder / "7.h5").mkdir()
    elif what == "link":
        (folder / "7.h5").symlink_to("0.h5")
    else:
        folder.rename(folder.with_name("real"))
        folder.symlink_to("real")
    before = sorted(path.name for path in folder.iterdir())
    plan_of("edge").save(head)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_pieces_of_another_head_stay(pieces):
    """A copy of the head names the folder of its original."""
    head, folder = pieces
    copy = head.with_name("copy.h5")
    shutil.copy(head, copy)
    assert load(copy).content_sha256() == load(head).content_sha256()
    plan_of("edge").save(copy)
    assert load(head).content_sha256() == plan_of().content_sha256()
    assert folder.exists()


def test_a_plan_may_be_moved_and_linked_to(pieces):
    head, folder = pieces
    elsewhere = head.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "link.h5").symlink_to("../plan.h5")
    content = plan_of().content_sha256()
    assert load(elsewhere / "link.h5").content_sha256() == content
    shutil.move(folder, elsewhere)
    head.rename(elsewhere / "other.h5")
    assert load(elsewhere / "other.h5").content_sha256() == content


@pytest.mark.parametrize("name", ["a plän.h5", ".plan", "..h5", "x" * 200 + ".h5"])
def test_odd_names(name, tmp_path):
    save_in_pieces(plan_of(), tmp_path / name, [0, PARTS])
    assert load(tmp_path / name).content_sha256() == plan_of().content_sha256()


OF_PIECES = ("missing", "external link", "external storage", "virtual", "lzf", "hollow", "group")
OF_PIECES += ("<i2", "shorter", "longer", "another dimension")
NAMES = ("rows/global_id", "matrix/row_ptr", "expand/recv_row")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=() if i % 3 == j else long)
        for i, kind in enumerate(OF_PIECES)
        for j, name in enumerate(NAMES)
    ],
)
def test_datasets_of_a_piece_are_checked(kind, name, pieces):
    head, folder = pieces
    words = damages.damage(folder / "1.h5", name, kind)
    if kind in damages.SHAPES:
        words = "the head asks for"
    for read in (load, lambda at: read_rank_slice(at, 1, PARTS)):
        with pytest.raises(PlanError, match=words):
            read(head)
    read_rank_slice(head, 0, PARTS)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """An edge plan in two pieces, to be changed and left as it was."""
    head = tmp_path_factory.mktemp("two") / "p.h5"
    save_in_pieces(plan_of("edge"), head, [0, 3, PARTS])
    (folder,) = (path for path in head.parent.iterdir() if path.is_dir())
    return head, folder


@pytest.mark.parametrize(
    ("index", "entry", "step"),
    [(0, -1, 4), *(pytest.param(k, at, 1, marks=long) for k in (0, 1) for at in (0, -1))],
)
def test_a_changed_entry_is_found(index, entry, step, two):
    head, folder = two
    piece = folder / f"{index}.h5"
    before = piece.read_bytes()
    for name in [name for name in plan_of("edge").arrays() if NODES[name].cut][::step]:
        with damages.opened(piece) as file:
            array = file[name][()]
            array.reshape(len(array), -1)[entry, 0] += 1
            file[name][...] = array
        with pytest.raises(PlanError, match="is damaged"):
            load(head)
        with PlanFile(head) as file, pytest.raises(PlanError, match=f"/{name} is damaged"):
            file.check_content()
        piece.write_bytes(before)
    load(head)


def test_a_start_within_its_bounds_is_found_by_the_digests(pieces):
    head, _ = pieces
    with damages.opened(head) as file:
        file["pieces/matrix/column"][1] += 1
    for rank in range(2):
        with pytest.raises(PlanError):
            read_rank_slice(head, rank, PARTS)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_nothing_is_left_of_a_plan_that_was_not_written(after, tmp_path, monkeypatch):
    from plancc.plan import piece_writer

    written = []
    write = piece_writer.write_array

    def fail(file, name, *rest):
        written.append(name)
        if len(written) > after * 14:
            raise OSError(28, "No space left on device")
        write(file, name, *rest)

    monkeypatch.setattr(piece_writer, "write_array", fail)
    with pytest.raises(plancc.OutputError, match="the disk is full"):
        save_in_pieces(plan_of(), tmp_path / "p.h5", [0, 1, 3, PARTS])
    assert not list(tmp_path.iterdir())


def test_pieces_without_a_head_are_removed(pieces, monkeypatch):
    head, _folder = pieces
    before = sorted(head.parent.rglob("*"))

    def fail(*words, **options):
        raise plancc.OutputError("the disk is full")

    monkeypatch.setattr("plancc.plan.piece_writer.write_file", fail)
    with pytest.raises(plancc.OutputError):
        save_in_pieces(plan_of("edge"), head, [0, PARTS])
    assert sorted(head.parent.rglob("*")) == before
    assert load(head).content_sha256() == plan_of().content_sha256()


def test_a_plan_is_not_joined_into_itself(pieces):
    head, _ = pieces
    with pytest.raises(InputError, match="is the plan that is read"):
        join(head, head)
    with pytest.raises(InputError, match="is among the pieces that are read"):
        join(head, pieces[1] / "one.h5")
    plan_of().save(head.with_name("one.h5"))
    with pytest.raises(InputError, match="is in one file already"):
        join(head.with_name("one.h5"), head)


def test_the_head_has_no_entries_of_parts(pieces):
    head, folder = pieces
    with h5py.File(head) as file:
        for name, node in NODES.items():
            if name in file and node.cut:
                assert file[name].shape[0] == 0
        assert file.attrs["pieces"].decode() == folder.name
