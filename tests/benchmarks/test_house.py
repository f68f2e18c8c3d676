"""The measures of the sources, on a tree small enough to count by hand."""

from pathlib import Path

import pytest
from cases import long

from benchmarks.house import measured, mentions_outside, modules, run

SOURCES = {
    "plancc/lists.py": '''"""Lists."""

# a comment
class Lists:
    """Messages: peer and ptr are fields."""

    send_peer: list
    send_ptr: list


class Derived(Lists):
    pass


class Held:
    """Has one."""

    lists: "list[int]"
    all_lists: dict[str, Lists]


class Other:
    peer: int
''',
    "plancc/search/tuned.py": """ONE = 1
TWO, THREE = 2, 3.5
SIZE = 1 << 20
NAMES = ("a", "b")
RANGE = (1, 2)
FLAG = True
NAME: int = -4
HALF = ONE / 2


class Other:
    VALUE = 7
""",
    "plancc/search/presets.py": "TUNED = 3\n",
    "plancc/predict/schedules/row.py": '''class Scheduler:
    def product(self):
        """One statement is a name for another walk."""
        return self.steps()

    def counts(self):
        words = 1
        return words
''',
    "runtime/plancc_runtime/layouts/row.py": '''"""A layout."""
from plancc.lists import Derived

class Layout:
    @property
    def messages(self) -> Derived: ...

    def forward(self):
        """
        Of several lines.
        """
        send_ptr = recv_peer = 0
        return send_ptr + recv_peer

    @staticmethod
    def adjoint(context):
        context = 1
        return context

    def helper(self):
        x = 1
        return x
''',
    "include/plancc.h": "int *send_peer, *resend_peer;\n",
    "tests/test_it.py": "\n\n\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_all_measures_of_a_small_tree(tree: Path):
    report = measured(tree)
    found = {figure.name: figure.value for figure in report.figures}
    assert found["types that spell a message list (peer, ptr)"] == 2
    assert found["types that hold one of these"] == 2
    assert found["send_peer, send_ptr, recv_peer, recv_ptr: mentions"] == 2 + 4 + 1
    assert found["... in files"] == 3
    assert found["walks through layouts by hand"] == 2
    assert found["tuned numbers outside presets"] == 4  # a number of bits is none
    assert found["class names that several modules define"] == 1
    assert found["code lines, four packages"] == 10 + 11 + 6 + 14
    assert found["... plancc"] == 27
    assert found["... of them: how rows move"] == 6 + 14
    assert found["all lines, tests"] == 3


def test_the_notes_list_what_is_counted(tree: Path):
    notes = [note.strip() for note in measured(tree).notes]
    lists = notes[notes.index("message lists") + 1 : notes.index("held by")]
    assert lists == ["plancc.lists.Derived", "plancc.lists.Lists"]
    held = notes[notes.index("held by") + 1 : notes.index("mentions")]
    assert held == ["plancc.lists.Held", "plancc_runtime.layouts.row.Layout"]
    walks = notes[notes.index("walks") + 1 : notes.index("tuned numbers")]
    assert [walk.rpartition(" ")[2] for walk in walks] == ["Scheduler.counts", "Layout.forward"]
    assert "Other: plancc/lists.py, plancc/search/tuned.py" in notes


def test_lines_that_name_a_feature_are_counted_outside_its_own_files(tmp_path: Path):
    files = {
        "plancc/types.py": "types = 1\n",
        "plancc/other.py": '"""Of types."""\n# types\nlet_types = 1\nprototypes = 2\n'
        "of_types, relation = 3, 4\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert mentions_outside(modules(tmp_path, ["plancc"]), "types") == {"plancc/other.py": 2}


@long
def test_every_measure_finds_something_in_these_sources():
    assert all(figure.value > 0 for figure in run().figures if figure.target is None)
