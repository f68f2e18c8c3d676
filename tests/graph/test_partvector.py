"""Part vectors."""

import numpy as np
import pytest
from graph_helpers import refused
from hypothesis import given
from hypothesis import strategies as st

from plancc.errors import InputError
from plancc.graph.partvector import read_part_vector, write_part_vector


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=30))
def test_part_vector(tmp_path_factory, parts):
    path = tmp_path_factory.mktemp("part") / "a.part.4"
    write_part_vector(np.array(parts), path)
    assert path.read_text() == "".join(f"{part}\n" for part in parts)
    found = read_part_vector(path, len(parts))
    assert found.dtype == np.int32
    assert found.tolist() == parts


@pytest.mark.parametrize(
    ("text", "line", "value"),
    [
        ("0\n1\n-1\n", 3, "-1"), ("0\n1.5\n", 2, "1.5"), ("0\nx\n", 2, "x"), ("0 1\n", 1, "0 1"),
        ("0\n1\n", 2, "2"), ("0\n1\n0\n1\n", 4, "4"), ("0\n\n3000000000\n", 3, "3000000000"),
    ],
)  # fmt: skip
def test_bad_part_vector(tmp_path, text, line, value):
    path = tmp_path / "a.part.2"
    path.write_text(text)
    refused(lambda at: read_part_vector(at, 3), path, f"{path}, line {line}: ", f"'{value}'")


def test_parts_count_from_0(tmp_path):
    with pytest.raises(InputError, match="integers >= 0"):
        write_part_vector(np.array([0, -1]), tmp_path / "a")
