"""Small numba kernels that read the bytes of text files, and that test patterns for symmetry."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.kernel import njit
from plancc.sampling.counter import mix

_NEWLINE, _RETURN, _BLANK, _TAB = 10, 13, 32, 9
_PLUS, _MINUS, _DOT, _ZERO, _NINE = 43, 45, 46, 48, 57
_MAX_DIGITS = 18
_HASH, _PERCENT, _QUOTE = 35, 37, 34


@njit(cache=True, nogil=True)
def scan_integers(text, comments, usual, values, ptr, line):  # type: ignore[no-untyped-def]
    """Read or count the whole numbers in a text that ends in a newline.

    Fills `values`, `ptr` and `line` (see `plancc.graph.textfile.Integers`), unless they are empty.
    If `usual` is true, 007 and -0 are bad tokens. Returns the number of tokens, the number of
    lines, and the offset of the first bad token or -1.
    """
    fill = len(ptr) > 0
    tokens, lines, number, k = 0, 0, 0, 0
    while k < len(text):
        number += 1
        skipped = False
        for mark in comments:
            skipped = skipped or text[k] == mark
        if skipped:
            while text[k] != _NEWLINE:
                k += 1
            k += 1
            continue
        while text[k] != _NEWLINE:
            c = text[k]
            if c in (_BLANK, _TAB, _RETURN):
                k += 1
                continue
            begin = k
            k += c == _MINUS
            first = k
            value = np.int64(0)
            while _ZERO <= text[k] <= _NINE:
                value = value * 10 + (np.int64(text[k]) - _ZERO)
                k += 1
            digits = k - first
            unusual = usual and text[first] == _ZERO and (digits > 1 or c == _MINUS)
            ends = text[k] in (_BLANK, _TAB, _RETURN, _NEWLINE)
            if digits == 0 or digits > _MAX_DIGITS or unusual or not ends:
                return tokens, lines, begin
            if fill:
                values[tokens] = -value if c == _MINUS else value
            tokens += 1
        if fill:
            line[lines], ptr[lines + 1] = number, tokens
        lines += 1
        k += 1
    return tokens, lines, -1


@njit(cache=True, nogil=True)
def _split_line(text, k, separator, first, last):  # type: ignore[no-untyped-def]
    """Write the offsets where the columns of a line begin and end into `first` and `last`.

    Returns the offset of the line's end, and the number of columns: 0 for a blank line or a
    comment.
    """
    count = 0
    comment = text[k] == _HASH or text[k] == _PERCENT
    while comment and text[k] != _NEWLINE:
        k += 1
    while text[k] != _NEWLINE:
        while text[k] != separator and text[k] in (_BLANK, _TAB, _RETURN):
            k += 1
        if text[k] == _NEWLINE and (separator == 0 or count == 0):
            break
        begin = k
        quoted = has_quotes = separator != 0 and text[k] == _QUOTE
        # separator 0 stands for blanks and tabs, so a byte 0 in the text separates nothing
        while text[k] != _NEWLINE and (quoted or separator == 0 or text[k] != separator):
            if separator == 0 and text[k] in (_BLANK, _TAB, _RETURN):
                break
            k += 1
            quoted = quoted != (has_quotes and text[k] == _QUOTE)
        stop = k
        while stop > begin and text[stop - 1] in (_BLANK, _TAB, _RETURN):
            stop -= 1
        if count < len(first):
            first[count], last[count] = begin, stop
        count += 1
        if separator != 0 and text[k] == separator:
            k += 1
            if text[k] == _NEWLINE:  # the last column is empty
                if count < len(first):
                    first[count] = last[count] = k
                count += 1
    return k, count


@njit(cache=True, nogil=True)
def take_columns(text, separator, columns, chosen, out):  # type: ignore[no-untyped-def]
    """Write the `chosen` columns of a text into `out`, line by line, with blanks between columns.

    Lines have `columns` columns. `separator` 0 is for blanks and tabs; a separator in double quotes
    separates no columns. Lines that begin with # or % become blank. `text` ends with a newline, and
    `out` is as long as `text`. Returns the number of bytes written, and the offset of the first
    line with a wrong number of columns or an empty chosen column, or -1.
    """
    first, last = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
    k = end = 0
    while k < len(text):
        line = k
        k, count = _split_line(text, k, separator, first, last)
        if count != 0:
            if count != columns:
                return end, line
            for place, column in enumerate(chosen):
                if first[column] == last[column]:
                    return end, line
                if place:
                    out[end] = _BLANK
                    end += 1
                for i in range(first[column], last[column]):
                    out[end] = text[i]
                    end += 1
        out[end] = _NEWLINE
        end += 1
        k += 1
    return end, -1


@njit(cache=True, nogil=True)
def number_names(text, separator, chosen, longest, first, last, ends, out):  # type: ignore[no-untyped-def]
    """Number the names in two columns of a text, in the order of their first occurrence.

    Double quotes around a column are dropped. The numbers are written to `ends`, int64[2, edges].
    If `chosen` has a third column, each of its entries is written into `out` as a line
    ``0 0 ENTRY``, like an edge from 0 to 0 with a weight; `out` then has the size of the text,
    otherwise it is empty.

    Returns the number of edges; the offsets in the text where every name begins and stops,
    int64[names, 2]; the number of bytes written to `out`; the offset of the first wrong line or -1;
    and a code for the fault of this line: 0 for a wrong number of columns, 1 for an empty column, 2
    for a name of more than `longest` bytes, 3 for a control character.
    """
    mask = np.uint64((1 << 16) - 1)
    slot = np.full(1 << 16, -1, np.int32)
    known = np.empty((1 << 15, 3), np.uint64)  # hash, begin and stop of every name
    edges, names, end, k = 0, 0, 0, 0
    wrong, what = -1, 0
    while k < len(text) and wrong < 0:
        line = k
        k, count = _split_line(text, k, separator, first, last)
        if count != 0 and count != len(first):
            wrong = line
            break
        for place in range(len(chosen) if count else 0):
            begin, stop = first[chosen[place]], last[chosen[place]]
            if stop - begin > 1 and text[begin] == _QUOTE and text[stop - 1] == _QUOTE:
                begin, stop = begin + 1, stop - 1
            if begin >= stop or (place < 2 and stop - begin > longest):
                wrong, what = line, 1 if begin >= stop else 2
                break
            if place == 2:
                for byte in (_ZERO, _BLANK, _ZERO, _BLANK):
                    out[end] = byte
                    end += 1
                for i in range(begin, stop):
                    out[end] = text[i]
                    end += 1
                continue
            key = np.uint64(14695981039346656037)  # FNV-1a
            for i in range(begin, stop):
                if text[i] < _BLANK:
                    wrong, what = line, 3
                key = (key ^ np.uint64(text[i])) * np.uint64(1099511628211)
            at = (key ^ (key >> np.uint64(32))) & mask
            while slot[at] >= 0:
                other = known[slot[at]]
                if other[0] == key and other[2] - other[1] == np.uint64(stop - begin):
                    i = 0
                    while i < stop - begin and text[other[1] + np.uint64(i)] == text[begin + i]:
                        i += 1
                    if i == stop - begin:
                        break
                at = (at + np.uint64(1)) & mask
            if slot[at] < 0:
                slot[at] = names
                known[names, 0], known[names, 1], known[names, 2] = key, begin, stop
                names += 1
            ends[place, edges] = slot[at]
            if names == len(known):
                known = np.concatenate((known, np.empty_like(known)))
                mask = np.uint64(2) * mask + np.uint64(1)
                slot = np.full(2 * len(slot), -1, np.int32)
                for name in range(names):
                    at = (known[name, 0] ^ (known[name, 0] >> np.uint64(32))) & mask
                    while slot[at] >= 0:
                        at = (at + np.uint64(1)) & mask
                    slot[at] = name
        edges += count != 0
        if len(out):
            out[end] = _NEWLINE
            end += 1
        k += 1
    return edges, known[:names, 1:].astype(np.int64), end, wrong, what


@njit(cache=True, nogil=True)
def copy_names(text, places, out):  # type: ignore[no-untyped-def]
    """Write ``text[places[k, 0]:places[k, 1]]`` into row k of `out`, uint8[names, width]."""
    for name in range(len(places)):
        for i in range(places[name, 0], places[name, 1]):
            out[name, i - places[name, 0]] = text[i]


@njit(cache=True, nogil=True)
def _after_digits(text, k):  # type: ignore[no-untyped-def]
    while _ZERO <= text[k] <= _NINE:
        k += 1
    return k


@njit(cache=True, nogil=True)
def _after_blanks(text, k):  # type: ignore[no-untyped-def]
    while text[k] == _BLANK or text[k] == _TAB:
        k += 1
    return k


@njit(cache=True, nogil=True)
def check_entries(text: npt.NDArray[np.uint8], field: int) -> int:
    """Return the number of entries if every line is a MatrixMarket entry or blank, else -1.

    An entry is a row, a column and a value. `field` says what the value must be: 0 for no value, 1
    for an integer, 2 for a decimal number, -1 for any text. 3 is like 2, but row and column must
    have no leading zeros. `text` must end with a newline.
    """
    entries = k = 0
    while k < len(text):
        k = _after_blanks(text, k)
        if text[k] == _RETURN or text[k] == _NEWLINE:
            while text[k] in (_BLANK, _TAB, _RETURN):
                k += 1
            if text[k] != _NEWLINE:
                return -1
            k += 1
            continue
        for _ in range(2):
            first, k = k, _after_digits(text, k)
            if k == first or (field == 3 and text[first] == _ZERO and k > first + 1):
                return -1
            first, k = k, _after_blanks(text, k)
            if k == first and text[k] != _NEWLINE and text[k] != _RETURN:
                return -1
        while field < 0 and text[k] != _NEWLINE and text[k] != _RETURN:
            k += 1
        if field > 0:
            k += text[k] == _MINUS  # mmread refuses a plus sign here
            first, k = k, _after_digits(text, k)
            digits = k - first
            if field >= 2:
                if text[k] == _DOT:
                    first, k = k + 1, _after_digits(text, k + 1)
                    digits += k - first
                if digits and (text[k] == 69 or text[k] == 101):  # E e
                    k += 1
                    k += text[k] == _PLUS or text[k] == _MINUS
                    first, k = k, _after_digits(text, k)
                    digits = k - first
            if digits == 0:
                return -1
        while text[k] in (_BLANK, _TAB, _RETURN):
            k += 1
        if text[k] != _NEWLINE:
            return -1
        entries += 1
        k += 1
    return entries


@njit(cache=True, nogil=True)
def format_lines(ptr: npt.NDArray[np.int64], values: npt.NDArray[np.int64]):  # type: ignore[no-untyped-def]
    """Return a text, uint8[bytes]; line k is ``values[ptr[k]:ptr[k + 1]]``, separated by blanks."""
    # written from its end, since the last digit comes first; unwritten pages take no memory
    text = np.empty(21 * len(values) + len(ptr), np.uint8)
    k = len(text)
    for row in range(len(ptr) - 2, -1, -1):
        k -= 1
        text[k] = _NEWLINE
        for token in range(ptr[row + 1] - 1, ptr[row] - 1, -1):
            value = abs(values[token])
            while True:
                k -= 1
                text[k] = _ZERO + value % 10
                value //= 10
                if value == 0:
                    break
            if values[token] < 0:
                k -= 1
                text[k] = _MINUS
            if token > ptr[row]:
                k -= 1
                text[k] = _BLANK
    return text[k:]


@njit(cache=True, nogil=True)
def is_mirrored(indptr: Any, indices: Any) -> bool:
    """Whether (j, i) is a nonzero of a CSR pattern for every nonzero (i, j).

    Columns must ascend in every row. The loop over rows meets the nonzeros (i, j) of a column j in
    ascending order of i. So in a symmetric pattern, (j, i) is the first nonzero of row j not met
    before.
    """
    following = indptr[:-1].copy()
    for i in range(len(following)):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            if following[j] == indptr[j + 1] or indices[following[j]] != i:
                return False
            following[j] += 1
    return True


@njit(cache=True, nogil=True)
def mirror_sum(base: int, indptr: Any, indices: Any) -> Any:
    """Return a hash sum that tells whether a CSR pattern is symmetric.

    The sum adds 64-bit hashes (splitmix64) of entries above the diagonal, and subtracts equal
    hashes of transposed entries below. The total of all ranks' sums is 0 if the pattern is
    symmetric, and otherwise almost never 0. `base` is the index of the first row.
    """
    total = np.uint64(0)
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            u, v = base + i, np.int64(indices[k])
            low, high = (u, v) if u < v else (v, u)
            # both orders of a pair have one hash: the low end is in the upper 32 bits of the key
            x = mix(np.uint64(low) << np.uint64(32) | np.uint64(high))
            if u < v:
                total += x
            elif u > v:
                total -= x
    return total
