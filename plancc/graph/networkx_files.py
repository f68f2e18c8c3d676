"""GraphML, GML and Pajek, by the readers of networkx. Edge u -> v is ``A[u, v]``: u needs v.

Undirected files hold both directions; the edges' attribute ``weight`` is the value. Names of
vertices that all are whole numbers are kept as ids; those of GML are its ``id``, not its ``label``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from plancc.errors import InputError
from plancc.graph.convert import graph_of_networkx
from plancc.graph.formats import Format
from plancc.graph.graph import Graph, Source
from plancc.graph.textfile import StrPath, check_readable, input_errors, open_input
from plancc.text import shown

MOST_PROLOG = 1 << 20
"""Bytes in which the first element of an XML file must begin."""


def _refuse_declarations(path: StrPath) -> None:
    """InputError for XML with a document type, whose entities may expand without bound."""
    from xml.parsers.expat import ExpatError, ParserCreate

    name, parser = os.fspath(path), ParserCreate()
    began: list[str] = []

    def refuse(*_: Any) -> None:
        raise InputError(f"{name}: XML with a document type (DOCTYPE) is not read")

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = lambda tag, _: began.append(tag)
    with input_errors(path), open_input(path) as stream:
        for _ in range(MOST_PROLOG >> 12):
            data = stream.read(1 << 12)
            try:
                parser.Parse(data, not data)
            except (ExpatError, LookupError, ValueError) as error:
                raise InputError(f"{name}: not XML: {error}") from error
            if began or not data:
                return
    raise InputError(f"{name}: not GraphML: no element in the first {MOST_PROLOG} bytes")


def _graphml(stream: Any) -> Any:
    from networkx import read_graphml

    return read_graphml(stream)


def _gml(stream: Any) -> Any:
    from networkx import read_gml

    return read_gml(stream, label="id")


def _pajek(stream: Any) -> Any:
    from networkx import read_pajek

    return read_pajek(stream)


def _reader(name: str, parse: Callable[[Any], Any]) -> Callable[..., Graph]:
    def read(
        path: StrPath, *, pattern: bool = False, symmetrize: bool = False, transpose: bool = False
    ) -> Graph:
        check_readable(path)
        if parse is _graphml:
            _refuse_declarations(path)
        where = os.fspath(path)
        try:
            with input_errors(path), open_input(path) as stream:
                graph = parse(stream)
        except (InputError, MemoryError):
            raise
        except Exception as error:  # networkx raises whatever its parsers meet
            words = shown(error) or type(error).__name__
            raise InputError(f"{where}: cannot be read as {name}: {words}") from error
        return graph_of_networkx(
            _numbered(graph),
            where,
            Source.of_file(path, name),
            pattern=pattern,
            symmetrize=symmetrize,
            transpose=transpose,
        )

    return read


def _numbered(graph: Any) -> Any:
    """The same graph, its vertices whole numbers if all their names are."""
    from networkx import relabel_nodes

    names = list(graph)
    if not all(isinstance(each, str) and each.isascii() and each.isdigit() for each in names):
        return graph
    numbers = [int(each) for each in names if len(each) <= 18]
    if len(set(numbers)) != len(names):  # as in "1" and "01"
        return graph
    return relabel_nodes(graph, dict(zip(names, numbers, strict=True)))


GRAPHML = Format((".graphml",), _reader("graphml", _graphml), what="GraphML")
GML = Format((".gml",), _reader("gml", _gml), what="GML")
PAJEK = Format((".net",), _reader("pajek", _pajek), what="Pajek")
