"""`plancc dataset`: write a graph that comes with plancc, with its vertex data."""

from __future__ import annotations

import os
from typing import Any

import click

from plancc.errors import PlanccError
from plancc.registry import check_choice
from plancc.text import docstring, first_sentence
from plancc_cli import options
from plancc_cli.words import name_flags, say
from plancc_datasets.dataset import DATASETS, dataset_options


class DatasetGroup(click.Group):
    """The commands ``plancc dataset NAME``; their options are the fields of data sets' classes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(DATASETS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        check_choice("dataset", cmd_name, DATASETS)
        return _dataset_command(cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PlanccError as error:
            if (name := ctx.invoked_subcommand) is not None:
                name_flags(error, self.get_command(ctx, name))
            raise


@click.group(cls=DatasetGroup, name="dataset")
def command() -> None:
    """Write a built-in graph or a generated one.

    \b
        plancc dataset digits -o digits.mtx              # and digits.npz: features, labels, masks
        plancc dataset rmat --scale 16 -o rmat.mtx
    """


def _dataset_command(name: str) -> click.Command:
    parameters: list[click.Parameter] = [
        click.Option(
            ["-o", "--output"],
            required=True,
            type=click.Path(),
            help="Graph file (.mtx, .graph, also .gz), with vertex data in .npz beside it; a "
            "folder for a graph of several vertex types.",
        )
    ]
    fields = (each for each in dataset_options(name) if not each.metadata.get("python_only"))
    parameters += map(options.option_of, fields)

    def write(output: str, **values: Any) -> None:
        from plancc.errors import InputError
        from plancc.files import atomic_folder, check_folder_target, check_target
        from plancc.graph.csr import write_csr, write_data
        from plancc.graph.formats import write_graph
        from plancc.graph.vertexdata import save_vertex_data
        from plancc_datasets.dataset import load_dataset

        values = {name: value for name, value in values.items() if value is not None}
        is_typed = getattr(DATASETS[name], "typed", False)
        if not is_typed:
            check_target(output)
            options.check_writable_format(output)
        elif os.path.splitext(output)[1]:
            raise InputError(f"{output}: dataset '{name}' has several vertex types; name a folder")
        else:
            check_folder_target(output)
        dataset = load_dataset(name, **values)
        graph, data = dataset.graph, data_path(output)
        has_data = dataset.data.features is not None or dataset.data.labels is not None
        if has_data:
            check_target(data)
        is_new = not os.path.exists(output)
        if is_typed:
            with atomic_folder(output) as made:
                write_csr(graph, made)
                write_data(dataset.data, made)
        else:
            write_graph(graph, output)
        if has_data:
            try:
                save_vertex_data(dataset.data, data)
            except BaseException:  # both files or none
                if is_new:
                    os.unlink(output)
                raise
        kind = "directed" if graph.directed else "undirected"
        say(f"{output}: {graph.num_vertices} vertices, {graph.num_nonzeros} nonzeros, {kind}")
        if has_data:
            say(f"{data}: features, labels and masks; compile with --data {data}")

    help_text = docstring(DATASETS[name]).split("\n\n")[0]
    short = first_sentence(help_text)
    return click.Command(name, params=parameters, callback=write, help=help_text, short_help=short)


def data_path(output: str) -> str:
    """Return the name of the file of vertex data: for ``graph.mtx.gz``, ``graph.npz``."""
    return os.path.splitext(output.removesuffix(".gz"))[0] + ".npz"
