"""Writes exports and loads them, all in this process, which has torch_geometric: python pyg.py.

Reads lines ``TARGET PLAN FOLDER SCRIPT WORDS``: the plan is exported into the folder, and the
script runs with the folder and the words.
"""

import runpy
import sys
from pathlib import Path

import plancc
from plancc.export import export

for line in sys.stdin:
    target, plan, folder, script, *words = line.split()
    export(plancc.load(plan), target, folder)
    sys.argv = [script, folder, *words]
    runpy.run_path(str(Path(__file__).with_name(script)), run_name="__main__")
