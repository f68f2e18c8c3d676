"""What a network learns of a vertex: its class, its classes, or numbers; one class for each kind.

A kind says its losses, its metrics, and the columns of predictions; nothing else tells kinds apart.
"""

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
    """A kind of targets, and how a run learns them.

    Attributes:
        loss: One of `losses`.
        weights (Tensor[classes] or None): What the vertices of each class count in the loss; None:
            all alike.
        centre (float64[targets] or None): Numbers from which squares of targets are summed.
    """

    loss: str = "auto"
    weights: Tensor | None = None
    centre: Tensor | None = None

    name: ClassVar[str]
    """In results and files of weights."""
    words: ClassVar[str]
    losses: ClassVar[tuple[str, ...]] = ("auto",)
    metrics: ClassVar[tuple[str, ...]]
    """The first is that of histories."""
    printed: ClassVar[tuple[str, ...]]
    """Metrics that a run prints by default: the first in its table, all of several at its end."""
    compared: ClassVar[str]
    """The field of `Scores` by which remarks compare a network with a constant answer."""
    compared_words: ClassVar[tuple[str, str]]
    """How remarks call this score, and that of the constant answer."""

    @classmethod
    def shown(cls, metric: str) -> tuple[str, ...]:
        """Metrics that a run prints which follows this one."""
        if metric == "loss":
            return cls.printed
        group = RANKED if metric in RANKED else cls.printed
        return (metric, *(each for each in group if each != metric and metric in group))

    @staticmethod
    def known(labels: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which vertices have a target."""
        return np.ones(len(labels), np.bool_)

    def total(self, labels: Tensor) -> float:
        """What these vertices count in a mean loss."""
        return len(labels)

    @abstractmethod
    def share_of_loss(self, outputs: Tensor, labels: Tensor, total: float) -> Tensor:
        """This rank's share of the mean loss.

        Parameters:
            outputs (Tensor[m, d_L]): Outputs for the split's vertices on this rank.
            labels (Tensor[m, ...]): Their targets, as `LocalData` has them.
            total: `total` of the split's vertices, summed over all ranks.
        """

    @abstractmethod
    def count(self, outputs: Tensor, labels: Tensor, total: float) -> Float64Array:
        """What one rank's vertices of a split contribute to `scores`; summed over ranks.

        The first number is the share of the loss. Parameters are those of `share_of_loss`.
        """

    @abstractmethod
    def scores(self, counts: Float64Array, size: int) -> dict[str, Any]:
        """Fields of `results.Scores` of a split of `size` vertices, from the sum of `count`."""

    @staticmethod
    @abstractmethod
    def predictions(outputs: Tensor) -> dict[str, Tensor]:
        """Columns of predictions, first the prediction itself."""

    @staticmethod
    def known_column(labels: Tensor) -> dict[str, npt.NDArray[Any]]:
        """The column of what is known of every vertex, if there is one."""
        return {}

    @staticmethod
    def class_counts(labels: Tensor, classes: int) -> Tensor | None:
        """How many of these vertices are of every class: int64[classes]; None of numbers."""
        return None

    @classmethod
    def num_found(cls, outputs: Tensor, labels: Tensor) -> int:
        """Number of vertices whose class, or set of classes, is correct; 0 of numbers."""
        return 0

    @staticmethod
    @abstractmethod
    def constant(class_shares: list[float]) -> float:
        """`compared` of the best constant answer, from the share of vertices of each class."""


class ClassTarget(Target):
    """Accuracy and F1 of classes, and areas under their curves."""

    metrics = ("accuracy", "f1", *RANKED)

    @staticmethod
    @abstractmethod
    def _predicted(outputs: Tensor) -> Tensor:
        """Predictions in the form of the labels."""

    @staticmethod
    @abstractmethod
    def class_counts(labels: Tensor, classes: int) -> Tensor: ...

    @staticmethod
    @abstractmethod
    def ranking(outputs: Tensor, labels: Tensor) -> tuple[Float64Array, npt.NDArray[np.bool_]]:
        """Scores of the classes that are ranked, and who is of them, both [m, those classes]."""

    @classmethod
    def num_found(cls, outputs: Tensor, labels: Tensor) -> int:
        return int(cls._found(cls._predicted(outputs), labels).sum())

    @staticmethod
    def _found(predicted: Tensor, labels: Tensor) -> Tensor:
        right = predicted == labels
        return right if right.ndim == 1 else right.all(dim=1)

    def count(self, outputs: Tensor, labels: Tensor, total: float) -> Float64Array:
        """Loss; correct vertices; by class: how often predicted correctly, predicted, a label."""
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
    """The class of every vertex, int64[n], -1 where it is unknown: softmax."""

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
        """Rank the second of two classes, and every one of more against the others."""
        classes = torch.arange(outputs.shape[1] == 2, outputs.shape[1], device=labels.device)
        scores = torch.softmax(outputs, dim=1)[:, classes]
        return scores.double().cpu().numpy(), (labels[:, None] == classes).cpu().numpy()

    @staticmethod
    def predictions(outputs: Tensor) -> dict[str, Tensor]:
        """Class, int32[n], and probability of every class."""
        return {"class": outputs.argmax(dim=1).int(), "probability": torch.softmax(outputs, dim=1)}

    @staticmethod
    def known_column(labels: Tensor) -> dict[str, npt.NDArray[Any]]:
        return {"label": labels.cpu().numpy().astype(np.int32)}

    @staticmethod
    def constant(class_shares: list[float]) -> float:
        """The accuracy of the largest class."""
        return max(class_shares)


class ManyClasses(ClassTarget):
    """The set of classes of every vertex, bool[n, classes]: a sigmoid each."""

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
        """Which classes have a probability above 0.5, uint8[n, classes]; the probabilities."""
        return {"class": (outputs > 0).byte(), "probability": torch.sigmoid(outputs)}

    @staticmethod
    def constant(class_shares: list[float]) -> float:
        """The micro F1 of all classes that more than half of the vertices have.

        It is what a network without inputs learns.
        """
        often = [share for share in class_shares if share > 0.5]
        return 2 * sum(often) / (len(often) + sum(class_shares)) if often else 0.0


class Numbers(Target):
    """Real numbers of every vertex, float[n, targets], a row of NaN where they are unknown."""

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
        """Loss; by target: squares and magnitudes of errors, sums and squares of targets."""
        outputs, labels = outputs.double(), labels.double()
        errors, targets = outputs - labels, labels if self.centre is None else labels - self.centre
        loss = self.share_of_loss(outputs, labels, total).reshape(1)
        sums = [each.sum(dim=0) for each in (errors**2, errors.abs(), targets, targets**2)]
        found: Float64Array = torch.cat([loss, *sums]).cpu().numpy()
        return found

    def scores(self, counts: Float64Array, size: int) -> dict[str, Any]:
        """Means over the targets; R2 of a constant target as scikit-learn has it."""
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
        """The numbers: [n, targets], of one target [n]."""
        return {"prediction": outputs[:, 0] if outputs.shape[1] == 1 else outputs}

    @staticmethod
    def known_column(labels: Tensor) -> dict[str, npt.NDArray[Any]]:
        return {"target": Numbers.predictions(labels)["prediction"].float().cpu().numpy()}

    @staticmethod
    def constant(class_shares: list[float]) -> float:
        """R2 of the mean."""
        return 0.0


class LinkTarget(Target):
    """Whether a pair of vertices is a link, bool[m], by a score, Tensor[m]: a sigmoid."""

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
        """What decoders take of every vertex, Tensor[n, width]."""
        return {"embedding": outputs}

    @staticmethod
    def constant(class_shares: list[float]) -> float:
        """The area under the curve of a constant score."""
        return 0.5


TARGETS: dict[str, type[Target]] = {
    each.name: each for each in (OneClass, ManyClasses, Numbers, LinkTarget)
}


def kind_of(labels: npt.NDArray[Any] | Tensor) -> type[Target]:
    """The kind of targets in this form."""
    if labels.ndim == 1:
        return OneClass
    return ManyClasses if labels.dtype in (np.bool_, torch.bool) else Numbers
