"""Steps of mini-batches by DGL's own loader and SAGEConv; asked and answered as
`benchmarks.minibatch_worker`, the loader's milliseconds as "drawing".
"""

from __future__ import annotations

import json
import sys
import time
from itertools import chain
from statistics import median

import dgl
import numpy as np
import torch
from dgl.dataloading import DataLoader, NeighborSampler
from dgl.nn import SAGEConv

STEPS = 40


def main(path: str, threads: str, seeds: str, fanouts: str, width: str, classes: str) -> None:
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    with np.load(path) as file:  # without a diagonal
        pattern = (torch.from_numpy(file[name].astype(np.int64)) for name in ("indptr", "indices"))
        graph = dgl.graph(("csc", (*pattern, torch.empty(0, dtype=torch.int64))))
    n, d = graph.num_nodes(), int(width)
    features, labels = torch.rand(n, d) * 2 - 1, torch.randint(0, int(classes), (n,))
    first, second = SAGEConv(d, d, "mean"), SAGEConv(d, int(classes), "mean")
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.01)
    sampler = NeighborSampler([int(each) for each in fanouts.split(",")][::-1])
    size = min(int(seeds), n)
    loader = DataLoader(
        graph, torch.arange(n), sampler, batch_size=size, shuffle=True, drop_last=True
    )

    def batches():
        while True:
            yield from loader

    batch = batches()
    for line in chain([""], sys.stdin):
        found: dict[str, list[float]] = {"drawing": [], "step": [], "cpu": []}
        for _ in range(STEPS):
            begin, cpu = time.perf_counter(), time.process_time()
            inputs, outputs, blocks = next(batch)
            found["drawing"].append(time.perf_counter() - begin)
            hidden = torch.relu(first(blocks[0], features[inputs]))
            loss = torch.nn.functional.cross_entropy(second(blocks[1], hidden), labels[outputs])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
            found["step"].append(time.perf_counter() - begin)
            found["cpu"].append(time.process_time() - cpu)
        figures = {name: 1000 * median(values) for name, values in found.items()}
        print(json.dumps(figures) if line else "ready", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
