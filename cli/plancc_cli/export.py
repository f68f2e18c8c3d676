"""`plancc export`: writes graphs and plans in the formats of other tools."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import click

from plancc.errors import InputError
from plancc.export.target import EXPORTS
from plancc.models.weights import Balance, vertex_weights
from plancc_cli import options
from plancc_cli.words import say

WEIGHTED = (".hgr", ".graph", ".metis")
PART_VECTOR = re.compile(r"\.part(\.\d+)?$")
NONZERO_PARTS = re.compile(r"\.part\.mtx$")
OF_GRAPHS = ("normalize", "self_loops", "balance", "dims", "data")
"""Parameters that, like the reading options, are only for a source that is a graph."""


@click.command(
    cls=options.Sections,
    sections={
        "Output": ("output", "target"),
        "Graphs": OF_GRAPHS,
        options.READING_TOPIC: options.READING_FLAGS,
    },
)
@click.argument("source", type=click.Path())
@click.option(
    "-o", "--output", required=True, type=click.Path(), help="Output file, or folder with --to."
)
@click.option(
    "--to",
    "target",
    metavar="NAME",
    type=options.NameIn("export", EXPORTS),
    help=f"Write a plan as a folder for another framework: {', '.join(EXPORTS)}.",
)
@options.searching("normalize", default="none", otherwise="none")
@click.option("--self-loops", is_flag=True, help="Add self loops (the identity) first.")
@options.searching("balance", otherwise="nnz in .hgr, the graph's own weights in .graph")
@options.searching("dims", "Widths d0,d1,...,dL, for balance work.")
@options.searching("data", "Vertex data with the training mask, for balance train.")
@options.reading_flags
def command(
    source: str,
    output: str,
    target: str | None,
    normalize: str,
    self_loops: bool,
    balance: str | None,
    dims: list[int] | None,
    data: tuple[str, ...],
    **reading: Any,
) -> None:
    """Write SOURCE for other tools, in the format of the output's extension or of --to.

    \b
        plancc export graph.txt -o graph.mtx          MatrixMarket
        plancc export graph.mtx -o graph.graph        METIS
        plancc export graph.mtx --self-loops -o graph.hgr   hMETIS (the column-net hypergraph)
        plancc export plan.h5 -o graph.part.4         the plan's part vector
        plancc export plan.h5 -o graph.part.mtx       MatrixMarket: parts (1, 2, ...) of nonzeros
        plancc export plan.h5 --to distdgl -o folder  a plan for DGL; other names: see --to
    """
    if target is not None or NONZERO_PARTS.search(output) or PART_VECTOR.search(output):
        names = (*OF_GRAPHS, *options.READING_FLAGS)
        options.refuse_given(names, "is only for a graph, as a plan is written unchanged")
    if target is not None:
        _export_to_framework(source, target, output)
        return
    options.check_output(output, source, *data)
    wanted = Balance.parse(balance or "nnz", dims)
    if wanted.allowed:
        raise InputError(f"--balance {balance}: its limits are not written; drop them, as in 'nnz'")
    if balance is not None and not output.removesuffix(".gz").endswith(WEIGHTED):
        cure = f"drop --balance {balance}, or choose from {', '.join(WEIGHTED)}"
        raise InputError(f"{output}: this format cannot hold vertex weights; {cure}")
    if NONZERO_PARTS.search(output):
        _export_nonzero_owner(source, output)
        return
    if PART_VECTOR.search(output):
        _export_owner(source, output)
        return
    hypergraph = output.endswith(".hgr")
    if not hypergraph:
        options.check_writable_format(output, ".hgr", ".part.K", ".part.mtx")

    from plancc.graph.formats import read_graph, write_graph
    from plancc.graph.normalize import normalize as normalized
    from plancc.graph.vertexsources import read_vertex_data
    from plancc.graph.weights import with_own_weights
    from plancc.models.hmetis import write_hmetis
    from plancc.models.hypergraph import HypergraphModel

    graph = read_graph(source, **reading)
    if self_loops or normalize != "none":
        graph = normalized(graph, normalize, self_loops=self_loops, dtype="float64")
    if data:
        graph, found = with_own_weights(graph, read_vertex_data(data, graph))
        wanted = replace(wanted, train_mask=found.train_mask)
    if hypergraph:
        problem = HypergraphModel().build(graph, 1, balance=wanted, seed=0)
        write_hmetis(problem, output)
        say(f"{output}: {problem.num_vertices} vertices, {problem.num_nets} nets")
        return
    if balance is not None:
        weights = vertex_weights(graph, wanted).reshape(graph.num_vertices, -1)
        graph = replace(graph, vertex_weights=weights)
    write_graph(graph, output)
    say(f"{output}: {graph.num_vertices} vertices, {graph.num_nonzeros} nonzeros")


def _export_to_framework(source: str, target: str, output: str) -> None:
    from plancc.export.target import Export, export
    from plancc.files import check_folder_target
    from plancc.plan.reader import load

    check_folder_target(output)
    plan = load(source)
    export(plan, target, output)
    sizes = f"{plan.num_vertices} vertices and {plan.header.num_nonzeros} nonzeros"
    say(f"{output}: {target}, {sizes} in {plan.num_parts} parts")
    entry: Export = EXPORTS[target]
    if entry.doubles and plan.value.dtype != "float64":
        say(f"values are {plan.value.dtype}; compile with --dtype float64 to keep doubles")


def _export_owner(source: str, output: str) -> None:
    from plancc.graph.partvector import write_part_vector
    from plancc.plan.reader import load

    plan = load(source)
    extension = output.rpartition(".")[2]
    if extension not in ("part", str(plan.num_parts)):
        raise InputError(f"{output}: {source} has {plan.num_parts} parts, not {extension}")
    write_part_vector(plan.owner(), output)
    say(f"{output}: {plan.num_vertices} vertices in {plan.num_parts} parts")


def _export_nonzero_owner(source: str, output: str) -> None:
    """Write the part of every nonzero, counted from 1, as its value in a MatrixMarket file.

    Some readers drop values of 0.
    """
    from scipy.io import mmwrite
    from scipy.sparse import csr_array

    from plancc.files import atomic_write
    from plancc.plan.matrix import graph_of, owners_of
    from plancc.plan.reader import load

    plan = load(source)
    graph, n = graph_of(plan), plan.num_vertices
    number = owners_of(plan).of_nonzeros(graph) + 1
    parts = csr_array((number, graph.indices, graph.indptr), shape=(n, n)).tocoo()
    comment = f" plancc: the part, 1..{plan.num_parts}, of every nonzero of {plan.content_sha256()}"
    with atomic_write(output) as temporary, open(temporary, "wb") as stream:
        mmwrite(stream, parts, comment=comment, field="integer", symmetry="general")
    say(f"{output}: {graph.num_nonzeros} nonzeros in {plan.num_parts} parts")
