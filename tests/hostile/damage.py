"""Damage to bytes of any file, at random."""

import re
from collections.abc import Callable

import numpy as np

ODD = (0, 1, 0x7F, 0x80, 0xFF)


def damaged(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """The bytes with some wrong, and how they were damaged; at least one byte differs."""
    return _in_places(_damaged, content, rng)


def _in_places(
    once: Callable[[bytes, np.random.Generator], tuple[bytes, str]],
    content: bytes,
    rng: np.random.Generator,
) -> tuple[bytes, str]:
    """Damage in one place; in two or three for some."""
    while True:
        found, how = content, []
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            if any(found):
                found, what = once(found, rng)
                how.append(what)
        if found != content:
            return found, "; ".join(how)


def _damaged(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    data = np.frombuffer(content, np.uint8).copy()
    kind = rng.integers(8 if len(data) > 3 else 5)
    at = rng.integers(len(data), size=rng.integers(1, 9))
    used = np.flatnonzero(data)  # headers and names are what is not zero
    if kind == 0:
        data[at] ^= np.uint8(1) << rng.integers(8, size=len(at)).astype(np.uint8)
        return data.tobytes(), f"bits at {at.tolist()}"
    if kind == 1:
        data[at] = rng.integers(256, size=len(at))
        return data.tobytes(), f"bytes at {at.tolist()}"
    if kind in (2, 3):
        where = int(rng.choice(used))
        data[where] = rng.choice(ODD)
        return data.tobytes(), f"byte {where} is {data[where]}"
    if kind == 4:  # a number of several bytes
        where, size = int(rng.choice(used)), int(rng.choice([2, 4, 8]))
        number = int(rng.choice([0, 1, -1, 1 << (8 * size - 2), (1 << (8 * size - 1)) - 1]))
        word = number.to_bytes(size, "little", signed=True)
        return content[:where] + word + content[where + size :], f"{number} at {where}"
    if kind == 5:  # a block from elsewhere
        size = int(rng.integers(1, min(600, len(data) // 2)))
        source, target = rng.integers(len(data) - size, size=2)
        data[target : target + size] = data[source : source + size]
        return data.tobytes(), f"{size} bytes of {source} at {target}"
    if kind == 6:  # bytes taken out or put in
        where, size = int(rng.integers(len(data))), int(rng.integers(1, 65))
        if rng.random() < 0.5:
            return content[:where] + content[where + size :], f"{size} bytes less at {where}"
        more = rng.integers(256, size=size).astype(np.uint8).tobytes()
        return content[:where] + more + content[where:], f"{size} bytes more at {where}"
    size = int(rng.integers(len(data)))
    return content[:size], f"cut off after {size} bytes"


ENCODINGS = ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "cp037")
MANNERS: dict[str, Callable[[bytes], bytes]] = {
    "with zeros before": lambda word: b"000" + word,
    "with a plus": lambda word: b"+" + word,
    "with a minus": lambda word: b"-" + word,
    "with underscores": lambda word: b"_".join(word[k : k + 1] for k in range(len(word))),
    "with D for E": lambda word: word + b"D+00",
    "with E0": lambda word: word + b"e0",
    "with a large exponent": lambda word: word + b"e99999999999999999999",
    "with a comma": lambda word: word.replace(b".", b","),
    "in base 16": lambda word: b"0x" + word,
    "in wide digits": lambda word: "".join(chr(c + 0xFEE0) for c in word).encode(),
    "in Arabic digits": lambda word: "".join(
        chr(c - 48 + 0x660) if 48 <= c < 58 else chr(c) for c in word
    ).encode(),
    "in quotes": lambda word: b'"' + word + b'"',
    "above 2**63": lambda word: b"9223372036854775808" + word,
    "above 2**64": lambda word: b"18446744073709551616" + word,
}
NUMBERS = (
    *("0", "-1", "1", "2147483647", "2147483648", "-2147483649", "4294967296", "1e308", "1e999"),
    *("9223372036854775807", "9223372036854775808", "-0", "nan", "inf", "-inf", "1e-320", "0x7f"),
    *("9" * 400, "1_000", "+3", "1.5", "1e5", "true", "null", '"1"', "[]", "{}", ""),
)
WORDS = ("\x1b[31m", "\x1b]0;x\x07", "\r", "\x00", "\u202e", "é", "\ud7ff", "%s", "{0}", "'" * 3)


def damaged_text(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """The text with some of it wrong as an editor or another program makes it, or wrong bytes."""
    return _in_places(_damaged_text, content, rng)


def _damaged_text(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    kind = rng.integers(11)
    lines = content.split(b"\n")
    at = int(rng.integers(len(lines)))
    if kind in (0, 1):
        numbers = list(re.finditer(rb"-?\d+(\.\d+)?(e[-+]?\d+)?", content))
        if numbers:
            where = numbers[rng.integers(len(numbers))]
            word = NUMBERS[rng.integers(len(NUMBERS))]
            new = content[: where.start()] + word.encode() + content[where.end() :]
            return new, f"{where[0].decode()} is {word[:40]}"
    if kind == 2:
        words = list(re.finditer(rb"[A-Za-z_]{2,}", content))
        if words:
            where = words[rng.integers(len(words))]
            word = rng.choice([*NUMBERS, *WORDS, "a" * 5000])
            new = content[: where.start()] + str(word).encode() + content[where.end() :]
            return new, f"{where[0].decode()} is {str(word)[:40]!a}"
    if kind == 3:
        word = WORDS[rng.integers(len(WORDS))]
        where = int(rng.integers(len(content) + 1))
        return content[:where] + word.encode() + content[where:], f"{word!a} at {where}"
    if kind == 4:
        return b"\n".join(lines[:at] + lines[at + 1 :]), f"line {at + 1} left out"
    if kind == 5:
        other = int(rng.integers(len(lines)))
        return b"\n".join([*lines[:at], lines[other], *lines[at:]]), f"line {other + 1} at {at + 1}"
    if kind == 6:
        where, depth = int(rng.integers(len(content) + 1)), int(rng.choice([3, 2000, 200_000]))
        word = rng.choice([b"[", b'{"a":', b"a.", b"(", b" "])
        return content[:where] + word * depth + content[where:], f"{depth} x {word!r} at {where}"
    if kind == 8:
        ends = [b"\r\n", b"\r", b"\n\n", b" \t\n", b"\f\n", "\u2028".encode(), b"\0\n"]
        end = ends[rng.integers(len(ends))]
        some = rng.random() if rng.random() < 0.5 else 1.0
        mixed = (line + (end if rng.random() < some else b"\n") for line in lines)
        return b"".join(mixed), f"lines end with {end!r}"
    if kind == 9:
        code = str(rng.choice(ENCODINGS))
        text = content.decode("latin-1")
        where = int(rng.choice([0, 0, rng.integers(len(text) + 1)]))  # a mark within the text too
        mark = "\ufeff" * int(rng.integers(3))
        return f"{text[:where]}{mark}{text[where:]}".encode(
            code, "replace"
        ), f"{code}, {mark!a} at {where}"
    if kind == 10:
        manner, how = list(MANNERS.items())[rng.integers(len(MANNERS))]
        return re.sub(rb"\d+(\.\d+)?", lambda each: how(each[0]), content), f"numbers {manner}"
    return _damaged(content, rng)
