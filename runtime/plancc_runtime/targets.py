"""Kinds of targets: one class per vertex, a set of classes, real numbers, or links."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plancc_runtime.metrics import HITS, RANKED
from plancc_runtime.nn.loss import OF_NUMBERS, binary_cross_entropy, cross_entropy, loss_of_numbers

Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Target(ABC):
    """A kind of targets.

    Attributes:
        loss: Name of the loss, one of `losses`.
        weights (Tensor[classes] or None): Weight of each class in the loss; None: all equal.
        centre (float64[targets] or None): Subtracted from targets, against rounding errors in R2.
    """

    loss: str = "auto"
    weights: Tensor | None = None
    centre: Tensor | None = None

    name: ClassVar[str]
    """Name of the kind in results and in files of weights."""
    words: ClassVar[str]
    losses: ClassVar[tuple[str, ...]] = ("auto",)
    metrics: ClassVar[tuple[str, ...]]
    """Metrics of the kind. The first is the score of `plancc_runtime.script.Trained.history`."""
    printed: ClassVar[tuple[str, ...]]
    """Metrics that a run prints by default: the first in its table, and all at its end."""
    compared: ClassVar[str]
    """Name of the field of `Scores` by which remarks compare a network with a constant answer."""
    compared_words: ClassVar[tuple[str, str]]
    """Two phrases for remarks: the name of this score, and of the constant answer's score."""

    @classmethod
    def shown(cls, metric: str) -> tuple[str, ...]:
        """Return the metrics that a run prints if the option `metric` has this value."""
        if metric == "loss":
            return cls.printed
        group = RANKED if metric in RANKED else cls.printed
        return (metric, *(each for each in group if each != metric and metric in group))

    @staticmethod
    def known(labels: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return whether each vertex has a target: bool[n]."""
        return np.ones(len(labels), np.bool_)

    def total(self, labels: Tensor) -> float:
        """Return the sum of the weights that vertices with these labels have in the loss."""
        return len(labels)

    @abstractmethod
    def share_of_loss(self, outputs: Tensor, labels: Tensor, total: float) -> Tensor:
        """Return this rank's share of the mean loss of a split; all ranks' shares add up to it.

        Parameters:
            outputs (Tensor[m, d_L]): Outputs for the split's vertices on this rank.
            labels (Tensor[m, ...]): Targets of these vertices, in the form of `LocalData.labels`.
            total: Sum over all ranks of what the method `total` returns.
        """

    @abstractmethod
    def count(self, outputs: Tensor, labels: Tensor, total: float) -> Float64Array:
        """Return own share of the mean loss, then sums over own vertices that `scores` needs."""

    @abstractmethod
    def scores(self, counts: Float64Array, size: int) -> dict[str, Any]:
        """Return a split's scores, by field of `results.Scores`.

        `counts` is the sum of all ranks' results of `count`.
        """

    @staticmethod
    @abstractmethod
    def predictions(outputs: Tensor) -> dict[str, Tensor]:
        """Return columns of predictions by name; the first column is the prediction itself."""

    @staticmethod
    def known_column(labels: Tensor) -> dict[str, npt.NDArray[Any]]:
        """Return `labels` as {column name: column}; {} if targets of this kind have no column."""
        return {}

    @staticmethod
    def class_counts(labels: Tensor, classes: int) -> Tensor | None:
        """Return the number of vertices in every class, int64[classes]; None for real numbers."""
        return None

    @classmethod
    def num_found(cls, outputs: Tensor, labels: Tensor) -> int:
        """Return how many vertices have a correct class or set of classes; 0 for real numbers."""
        return 0

    @staticmethod
    @abstractmethod
    def constant(class_shares: list[float]) -> float:
        """Return the best `compared` score that one answer for all vertices can reach."""


class ClassTarget(Target):
    """Targets that are classes; their scores are accuracy, F1 and areas under curves."""

    metrics = ("accuracy", "f1", *RANKED)

    @staticmethod
    @abstractmethod
    def _predicted(outputs: Tensor) -> Tensor:
        """Return predictions in the form of the labels."""

    @staticmethod
    @abstractmethod
    def class_counts(labels: Tensor, classes: int) -> Tensor: ...

    @staticmethod
    @abstractmethod
    def ranking(outputs: Tensor, labels: Tensor) -> tuple[Float64Array, npt.NDArray[np.bool_]]:
        """Return each vertex's score for each class, and whether the vertex is in the class.

        Both arrays are [m, classes]. If every vertex is in one of two classes, they have a column
        for the second class only.
        """

    @classmethod
    def num_found(cls, outputs: Tensor, labels: Tensor) -> int:
        return int(cls._found(cls._predicted(outputs), labels).sum())

    @staticmethod
    def _found(predicted: Tensor, labels: Tensor) -> Tensor:
        right = predicted == labels
        return right if right.ndim == 1 else right.all(dim=1)

    def count(self, outputs: Tensor, labels: Tensor, total: float) -> Float64Array:
        """Return the loss, the number of correct predictions, and three numbers for every class.

        The three are numbers of vertices: rightly predicted to be in the class, predicted to be in
        the class, and really in the class.
        """
        classes, predicted = outputs.shape[1], self._predicted(outputs)
        found = self._found(predicted, labels)
        right = labels[found] if labels.ndim == 1 else predicted & labels
        of_class = [self.class_counts(each, classes) for each in (right, predicted, labels)]
        loss = self.share_of_loss(outputs, labels, total).item()
        return np.concatenate(
            [[loss, int(found.sum())], *(n.cpu().numpy() for n in of_class)]
        ).astype(np.float64)

    def scores(self, counts: Float64Array, size: int) -> dict[str, Any]:
        right, predicted, actual = counts[2:].reshape(3, -1)
        occurs = predicted + actual > 0
        f1 = 2 * right[occurs] / (predicted + actual)[occurs]
        together = predicted.sum() + actual.sum()
        return {
            "loss": float(counts[0]),
            "accuracy": float(counts[1]) / size,
            "class_shares": (actual / size).tolist(),
            "f1_micro": float(2 * right.sum() / together) if together else 0.0,
            "f1_macro": float(f1.mean()) if occurs.any() else 0.0,
        }


class OneClass(ClassTarget):
    """The class of every vertex: int64[n], -1 if unknown. Outputs go through a softmax."""

    name = "class"
    words = "the class of every vertex"
    printed = ("accuracy",)
    compared = "accuracy"
    compared_words = ("accuracy", "the share of the largest class")

    @staticmethod
    def known(labels: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        return labels >= 0

    def total(self, labels: Tensor) -> float:
        if self.weights is None:
            return len(labels)
        return float(self.weights[labels].sum(dtype=torch.float64))

    def share_of_loss(self, outputs: Tensor, labels: Tensor, total: float) -> Tensor:
        return cross_entropy(outputs, labels, total, self.weights)

    @staticmethod
    def _predicted(outputs: Tensor) -> Tensor:
        return outputs.argmax(dim=1)

    @staticmethod
    def class_counts(labels: Tensor, classes: int) -> Tensor:
        return torch.bincount(labels, minlength=classes)

    @staticmethod
    def ranking(outputs: Tensor, labels: Tensor) -> tuple[Float64Array, npt.NDArray[np.bool_]]:
        """Return each class's score for each vertex, and whether the vertex is in the class.

        Both arrays have a row per vertex and a column per class. If there are two classes, the
        arrays have only the column of class 1.
        """
        classes = torch.arange(outputs.shape[1] == 2, outputs.shape[1], device=labels.device)
        scores = torch.softmax(outputs, dim=1)[:, classes]
        return scores.double().cpu().numpy(), (labels[:, None] == classes).cpu().numpy()

    @staticmethod
    def predictions(outputs: Tensor) -> dict[str, Tensor]:
        """Return "class", int32[n], and the classes' "probability", Tensor[n, classes]."""
        return {"class": outputs.argmax(dim=1).int(), "probability": torch.softmax(outputs, dim=1)}

    @staticmethod
    def known_column(labels: Tensor) -> dict[str, npt.NDArray[Any]]:
        return {"label": labels.cpu().numpy().astype(np.int32)}

    @staticmethod
    def constant(class_shares: list[float]) -> float:
        """Return the accuracy if the answer for every vertex is the largest class."""
        return max(class_shares)


class ManyClasses(ClassTarget):
    """The set of classes of every vertex: bool[n, classes]. Outputs go through a sigmoid."""

    name = "classes"
    words = "any number of classes for every vertex"
    printed = ("f1",)
    compared = "f1_micro"
    compared_words = ("micro F1", "that of the same answer for every vertex")

    def share_of_loss(self, outputs: Tensor, labels: Tensor, total: float) -> Tensor:
        return binary_cross_entropy(outputs, labels, total, self.weights)

    @staticmethod
    def _predicted(outputs: Tensor) -> Tensor:
        return outputs > 0

    @staticmethod
    def class_counts(labels: Tensor, classes: int) -> Tensor:
        return labels.sum(dim=0)

    @staticmethod
    def ranking(outputs: Tensor, labels: Tensor) -> tuple[Float64Array, npt.NDArray[np.bool_]]:
        return torch.sigmoid(outputs).double().cpu().numpy(), labels.cpu().numpy()

    @staticmethod
    def predictions(outputs: Tensor) -> dict[str, Tensor]:
        """Return "class" (uint8, 1 for probabilities above 0.5) and "probability": [n, classes]."""
        return {"class": (outputs > 0).byte(), "probability": torch.sigmoid(outputs)}

    @staticmethod
    def constant(class_shares: list[float]) -> float:
        """Return micro F1 if all vertices get the classes that more than half of them have."""
        often = [share for share in class_shares if share > 0.5]
        return 2 * sum(often) / (len(often) + sum(class_shares)) if often else 0.0


class Numbers(Target):
    """Real numbers for every vertex: float[n, targets]. A row with a NaN counts as unknown."""

    name = "numbers"
    words = "real numbers for every vertex"
    losses = ("auto", *OF_NUMBERS)
    metrics = ("rmse", "mae", "r2")
    printed = ("rmse", "mae", "r2")
    compared = "r2"
    compared_words = ("R2", "that of the mean as the answer for every vertex")

    @staticmethod
    def known(labels: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        there: npt.NDArray[np.bool_] = ~np.isnan(labels).any(axis=1)
        return there

    def share_of_loss(self, outputs: Tensor, labels: Tensor, total: float) -> Tensor:
        name = next(iter(OF_NUMBERS)) if self.loss == "auto" else self.loss
        return loss_of_numbers(outputs, labels, total, name)

    def count(self, outputs: Tensor, labels: Tensor, total: float) -> Float64Array:
        """Return the loss, and four sums for every target.

        The sums are of squared errors, absolute errors, targets less `centre`, and their squares.
        """
        outputs, labels = outputs.double(), labels.double()
        errors, targets = outputs - labels, labels if self.centre is None else labels - self.centre
        loss = self.share_of_loss(outputs, labels, total).reshape(1)
        sums = [each.sum(dim=0) for each in (errors**2, errors.abs(), targets, targets**2)]
        found: Float64Array = torch.cat([loss, *sums]).cpu().numpy()
        return found

    def scores(self, counts: Float64Array, size: int) -> dict[str, Any]:
        """Return mean scores over targets; R2 of a constant target: 1 for exact outputs, else 0."""
        squared, magnitudes, sums, squares = counts[1:].reshape(4, -1)
        around = squares - sums**2 / size
        around[around <= size * np.finfo(np.float64).eps * squares] = 0
        with np.errstate(divide="ignore", invalid="ignore"):
            r2 = np.where(around > 0, 1 - squared / around, np.where(squared > 0, 0.0, 1.0))
        return {
            "loss": float(counts[0]),
            "rmse": float(np.sqrt(squared / size).mean()),
            "mae": float((magnitudes / size).mean()),
            "r2": float(r2.mean()),
        }

    @staticmethod
    def predictions(outputs: Tensor) -> dict[str, Tensor]:
        """Return {"prediction": the numbers}: [n, targets], or [n] if there is one target."""
        return {"prediction": outputs[:, 0] if outputs.shape[1] == 1 else outputs}

    @staticmethod
    def known_column(labels: Tensor) -> dict[str, npt.NDArray[Any]]:
        return {"target": Numbers.predictions(labels)["prediction"].float().cpu().numpy()}

    @staticmethod
    def constant(class_shares: list[float]) -> float:
        """Return 0: the R2 if the mean of the targets is predicted for every vertex."""
        return 0.0


class LinkTarget(Target):
    """Whether each pair of vertices is a link: bool[m]. Scores, Tensor[m], go through a sigmoid."""

    name = "link"
    words = "links between vertices"
    metrics = ("auc", "ap", "mrr", *(f"hits@{most}" for most in HITS))
    printed = metrics
    compared = "auc"
    compared_words = ("ROC-AUC", "that of a coin")

    @classmethod
    def shown(cls, metric: str) -> tuple[str, ...]:
        first = cls.metrics[:1] if metric == "loss" else (metric,)
        return (*first, *(each for each in cls.metrics if each not in first))

    def share_of_loss(self, outputs: Tensor, labels: Tensor, total: float) -> Tensor:
        return binary_cross_entropy(outputs[:, None], labels[:, None], total)

    def count(self, outputs: Tensor, labels: Tensor, total: float) -> Float64Array:
        return np.array([self.share_of_loss(outputs, labels, total).item()])

    def scores(self, counts: Float64Array, size: int) -> dict[str, Any]:
        return {"loss": float(counts[0])}

    @staticmethod
    def predictions(outputs: Tensor) -> dict[str, Tensor]:
        """Return {"embedding": the decoder's input for every vertex}: Tensor[n, width]."""
        return {"embedding": outputs}

    @staticmethod
    def constant(class_shares: list[float]) -> float:
        """Return the area under the ROC curve if all pairs have the same score: 0.5."""
        return 0.5


TARGETS: dict[str, type[Target]] = {
    each.name: each for each in (OneClass, ManyClasses, Numbers, LinkTarget)
}


def kind_of(labels: npt.NDArray[Any] | Tensor) -> type[Target]:
    """Return the kind of targets whose labels have this dtype and number of axes."""
    if labels.ndim == 1:
        return OneClass
    return ManyClasses if labels.dtype in (np.bool_, torch.bool) else Numbers
