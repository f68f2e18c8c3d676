"""A heap of integers in an array, with the largest integer on top."""

from __future__ import annotations

from typing import Any

from plancc.kernel import njit


@njit(cache=True, nogil=True)
def push(keys: Any, number: int, key: int) -> int:
    """Add a key to the heap ``keys[:number]``; return the new number of keys."""
    at = number
    # Move smaller keys down the path to the root, then put the key into the gap.
    while at > 0:
        above = (at - 1) >> 1
        if keys[above] >= key:
            break
        keys[at] = keys[above]
        at = above
    keys[at] = key
    return number + 1


@njit(cache=True, nogil=True)
def pop(keys: Any, number: int) -> Any:
    """Remove the largest key from the heap ``keys[:number]``; return it and the new number.

    The heap must not be empty.
    """
    top, last = keys[0], keys[number - 1]
    number -= 1
    at = 0
    # Move the larger child up until the last key fits into the gap.
    while True:
        below = 2 * at + 1
        if below >= number:
            break
        if below + 1 < number and keys[below + 1] > keys[below]:
            below += 1
        if keys[below] <= last:
            break
        keys[at] = keys[below]
        at = below
    keys[at] = last
    return top, number
