"""The task of link prediction: a decoder computes the score of a pair from the network's outputs.

The links are in the plan. New *negatives*, pairs that the loss treats as pairs without a link, are
drawn in every epoch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plancc.plan.exchange import Int64Array
from plancc.plan.links import NUM_KINDS, OF_SPLITS
from plancc.plan.parts import Part
from plancc.plan.values import Header
from plancc.sampling.negatives import drawn_negatives
from plancc_runtime.curves import Float64Array, areas
from plancc_runtime.data import LocalData, check_kind, features_of, width_of
from plancc_runtime.layouts.ends import Directory, Ends
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.learner import Learner, Splits
from plancc_runtime.metrics import HITS
from plancc_runtime.options import TrainOptions
from plancc_runtime.predictions import known_in
from plancc_runtime.results import Scores
from plancc_runtime.targets import LinkTarget
from plancc_runtime.tasks.base import LearningTask
from plancc_runtime.transport.row_numbers import send_numbers
from plancc_runtime.views import View, place_of

MANY_EDGES = 0.05
"""Share of edges among all pairs of vertices above which many negatives are edges."""


class LinkPairs(LearningTask):
    """The task that predicts which pairs of vertices are links."""

    between = LearningTask.between[:-1]  # outputs are as wide as `hidden`
    words = "links"
    unvalidated = "there are no validation links"

    def __init__(self, header: Header, options: TrainOptions) -> None:
        super().__init__(header, options)
        self.learner, self.network = LinkLearner, {"decoder": options.decoder}

    def load(self, part: Part, resources: Resources, plan: str) -> LocalData:
        """Return this rank's training data. Collective.

        All rows are in split "train"; labels are unused. Sizes of splits are numbers of links.
        """
        links, options, device = part.links, self.options, resources.device
        transport, per_link = resources.transport, 1 + options.negatives
        assert links is not None
        kinds = np.bincount(links.kind, minlength=NUM_KINDS).astype(np.int64)
        transport.allreduce_sum(kinds)
        with transport.agreement():
            check_kind(options, LinkTarget, plan)
        sizes = {s: int(kinds[of[0]]) for s, of in OF_SPLITS.items() if kinds[of[0]]}
        kinds[0] *= per_link
        totals = {s: float(kinds[list(of)].sum()) for s, of in OF_SPLITS.items() if s in sizes}
        self._known = known_in(part, part.global_id) if options.predict is not None else {}
        width, rows = width_of(part, options), torch.arange(part.num_rows, device=device)
        return LocalData(
            features=features_of(part, options, width, resources.dtype).to(device),
            num_features=width,
            first_column=0,
            labels=torch.zeros(part.num_rows, dtype=torch.int64, device=device),
            num_classes=options.hidden,
            splits={"train": rows},
            split_sizes=sizes,
            target=LinkTarget(options.loss),
            totals=totals,
            random_features=part.vertex_data.features is None,
        )

    def remarks_on(self, data: LocalData) -> list[str]:
        return [*super().remarks_on(data), *edge_remarks(self.header, data.split_sizes["train"])]

    def known(self, data: LocalData) -> dict[str, np.ndarray]:
        return self._known


class LinkLearner(Learner):
    """A learner that trains a network with its decoder; `hold` must be called before epoch 0."""

    exchanges = True

    def hold(self, part: Part, header: Header, resources: Resources) -> None:
        """Store the links (pairs of vertices) of this rank's slice. Collective.

        The exchanges by which this rank gets the rows of the links' targets are stored, too.
        """
        links, exchange = part.links, part.link_exchange
        assert links is not None
        assert exchange is not None
        assert self.network.decoder is not None
        self._decoder = self.network.decoder
        transport, rows = self.transport, part.num_rows
        self._num_rows, self._resources = rows, resources
        self._vertices = part.global_id.astype(np.int64)
        self.directory = Directory(part.global_id, header.num_vertices, transport)
        self._per_link = header.links or 0
        counts = np.bincount(links.kind, minlength=1)[:1].astype(np.int64)
        transport.allreduce_sum(counts)
        self._negatives = self.options.negatives * int(counts[0])
        self._fixed: dict[str, tuple[list[Int64Array], Ends]] = {}
        for split, kinds in OF_SPLITS.items():
            chosen = [np.flatnonzero(links.kind == kind) for kind in kinds]
            places = np.concatenate(chosen)
            target = links.target[places]
            wanted = np.zeros(exchange.receive.volume, np.bool_)
            wanted[target[target >= rows] - rows] = True
            sent = send_numbers(exchange.reversed(), wanted[exchange.receive.row], transport)
            kept = exchange.keep(sent, wanted[exchange.receive.row])
            kept = kept.renumbered(received=np.cumsum(wanted) - 1)
            number = np.concatenate([np.arange(rows), rows + np.cumsum(wanted) - 1])
            ends = Ends(links.source[places], number[target], kept, rows, resources)
            self._fixed[split] = [links.number[each] for each in chosen], ends
        self._drawn: dict[int, Ends] = {}

    def words(self, epoch: int) -> int:
        """Return the words that all ranks send in an epoch to score vertex pairs. Collective."""
        asked = np.unique(self._drawn_in(epoch)[1])
        others = np.count_nonzero(~np.isin(asked, self._vertices))
        width = 2 * self.options.hidden  # forward and back
        rows = self._fixed["train"][1].num_received + others
        found = np.array([width * rows + self.directory.words(asked) + others], np.int64)
        self.transport.allreduce_sum(found)
        return int(found[0])

    def _drawn_in(self, epoch: int) -> tuple[Int64Array, Int64Array]:
        """Return an epoch's negatives as vertices: sources, which this rank owns, and targets."""
        n, seed = self.directory.num_vertices, self.options.seed
        return drawn_negatives(self._vertices, n, self._negatives, (seed, epoch))

    def _negative_ends(self, epoch: int) -> Ends:
        """Return the ends of the negatives (drawn pairs) of an epoch. Collective."""
        if epoch not in self._drawn:
            drawn = self._drawn_in(epoch)
            first = self._drawn.get(0)  # evaluations score the negatives of epoch 0
            self._drawn = {} if first is None else {0: first}
            self._drawn[epoch] = self.directory.ends(*drawn, self._num_rows, self._resources)
        return self._drawn[epoch]

    def score(self, x: Tensor, pairs: Int64Array) -> tuple[Int64Array, Tensor]:
        """Score the pairs whose sources are rows of this rank. Collective.

        Return the positions of these pairs, int64[k], and their scores, Tensor[k]. The pairs,
        int64[m, 2], are the same on all ranks.
        """
        places = np.flatnonzero(np.isin(pairs[:, 0], self._vertices))
        order = np.argsort(self._vertices)
        at = np.searchsorted(self._vertices, pairs[places, 0], sorter=order)
        own, target = order[at], pairs[places, 1]
        ends = self.directory.ends(own, target, self._num_rows, self._resources)
        with torch.no_grad():
            return places, self._decoder(*ends.rows(x))

    def restore(self, state: list[Tensor]) -> None:
        super().restore(state)
        self._drawn = {}  # an epoch that runs again draws its negatives again

    def _is_repeated(self, view: View, data: LocalData) -> bool:
        return False

    def _split_scores(self, split: str, x: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """Return the scores of a split's links, then of its negatives. Collective.

        The second result says which scores belong to links, bool[m]. Negatives for "train" are
        drawn in `epoch`.
        """
        numbers, ends = self._fixed[split]
        found, links = self._decoder(*ends.rows(x)), len(numbers[0])
        if split == "train":
            drawn = self._decoder(*self._negative_ends(epoch).rows(x))
            found = torch.cat([found, drawn])
        return found, torch.arange(len(found), device=found.device) < links

    def _share(self, outputs: Tensor, view: View, data: LocalData, step: int) -> Tensor:
        self.network.enter("links")
        _, places = place_of(data.splits["train"], view.outputs)
        x = outputs if len(places) == len(outputs) else outputs.index_select(0, places)
        given: Any = data.seeds
        if given is not None:
            scores = self._decoder(*given.ends.rows(x))
            truth = torch.arange(len(scores), device=scores.device) < given.num_links
        else:
            scores, truth = self._split_scores("train", x, step)
        return data.target.share_of_loss(scores, truth, data.totals["train"])

    def _split_outputs(self, outputs: Tensor, view: View, data: LocalData) -> Splits:
        """Return the scores of the pairs of all splits. Collective.

        The split "train" has the negatives of epoch 0.
        """
        with torch.no_grad():
            return {split: self._split_scores(split, outputs, 0) for split in data.split_sizes}

    def _rank(self, scores: Scores, splits: Splits, data: LocalData) -> None:
        arrays = [[each.cpu().numpy() for each in pair] for pair in splits.values()]
        groups = [(s.astype(np.float64)[:, None], truth[:, None]) for s, truth in arrays]
        means = np.concatenate(areas(groups, self.transport, HITS), axis=1)
        for k, split in enumerate(splits):
            if split != "train" and self._per_link:
                means[k, 2:] = self._among_own(split, *arrays[k]) / data.split_sizes[split]
        for name, column in zip(data.target.metrics, means.T, strict=True):
            of = getattr(scores, name.replace("@", "_"))
            of |= {s: float(v) for s, v in zip(splits, column, strict=True) if not np.isnan(v)}

    def _among_own(
        self, split: str, scores: npt.NDArray[Any], truth: npt.NDArray[np.bool_]
    ) -> Float64Array:
        """Return sums over the links of a split on all ranks: float64[1 + len(HITS)].

        Let r be a link's position, from 1, among the link and its negatives, highest score first.
        Among equal scores, r is the mean of the best and the worst position. The sums are of 1 / r
        and, for every K in `HITS`, of r <= K.
        """
        number, _ = self._fixed[split][0]
        by_link = scores[~truth].reshape(len(number), self._per_link)
        own = scores[truth][:, None]
        rank = 1 + ((by_link > own).sum(axis=1) + (by_link >= own).sum(axis=1)) / 2
        sums = np.array([(1 / rank).sum(), *((rank <= most).sum() for most in HITS)], np.float64)
        self.transport.allreduce_sum(sums)
        return sums


def edge_remarks(header: Header, num_links: int) -> list[str]:
    """Return a remark if many of the negatives that training draws are edges, else nothing."""
    n = header.num_vertices
    edges = header.num_nonzeros - n * header.self_loops
    share = max(edges, num_links * (1 if header.directed else 2)) / n**2
    if share <= MANY_EDGES:
        return []
    return [
        f"{share:.0%} of all pairs of vertices are edges, so about {share:.0%} of the negatives "
        "that training draws are edges too: the loss wrongly counts them as no links"
    ]
