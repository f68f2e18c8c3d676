"""The model of sparse accelerators beside what Wan et al. 2025 published: Figure 12 and Table 3."""

from __future__ import annotations

from benchmarks.inputs import Inputs
from benchmarks.report import Report
from plancc_lab.accelerators.published import comparisons


def run(inputs: Inputs) -> Report:
    report = Report(
        [
            "factors between model and Wan et al. 2025; 1 within a published range; "
            "nothing is measured",
            "speed-ups are those of mixgcn-spu over the machine; energies are in joules, the CPU's",
            "are compared with a thousandth of what Table 3 prints",
        ]
    )
    for each in comparisons():
        published = f"{each.low:,.4g}" + f" to {each.high:,.4g}" * (each.high > each.low)
        name = f"{each.dataset}, {each.figure} {each.machine}: {each.value:,.4g} ({published})"
        report.add(name, each.factor, each.claimed)
    return report
