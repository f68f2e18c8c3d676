"""Metrics by name. Runs print metrics; early stopping, schedules and best weights each use one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """How one metric is printed and compared.

    Attributes:
        fields: Fields of `Scores` and `Epoch` that are printed in one table cell. Early stopping
            uses the last field.
        higher: Whether a higher value is better.
        form: Format specification of a number, such as ".4f".
    """

    title: str
    fields: tuple[str, ...]
    higher: bool = True
    form: str = ".4f"

    def lowered(self, value: float) -> float:
        """Return the value, or its negative if `higher`, so that a lower result is better."""
        return -value if self.higher else value


METRICS = {
    "loss": Metric("loss", ("loss",), higher=False),
    "accuracy": Metric("accuracy", ("accuracy",)),
    "f1": Metric("F1 (micro/macro)", ("f1_micro", "f1_macro")),
    "auc": Metric("ROC-AUC", ("auc",)),
    "ap": Metric("average precision", ("ap",)),
    "rmse": Metric("RMSE", ("rmse",), higher=False, form=".5g"),
    "mae": Metric("MAE", ("mae",), higher=False, form=".5g"),
    "r2": Metric("R2", ("r2",)),
}
RANKED = ("auc", "ap")
"""Metrics that compare the scores of all vertices with each other."""
HITS = (10, 20, 50, 100)
"""Numbers K of Hits@K."""
METRICS["mrr"] = Metric("MRR", ("mrr",))
METRICS |= {f"hits@{k}": Metric(f"Hits@{k}", (f"hits_{k}",)) for k in HITS}
LOSSES = ("auto", "mse", "mae", "huber")
BALANCED = "balanced"
"""Value of `class_weights` that gives all classes the same total weight."""
