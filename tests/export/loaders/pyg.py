"""Writes exports and loads them, all in this process, which has torch_geometric: python pyg.py.

Reads lines ``TARGET PLAN FOLDER SCRIPT WORDS``: the command exports the plan into the folder, and
the script runs with the folder and the words.
"""

import runpy
import sys
from pathlib import Path

from plancc_cli.group import command

for line in sys.stdin:
    target, plan, folder, script, *words = line.split()
    command.main(["export", plan, "--to", target, "-o", folder], standalone_mode=False)
    sys.argv = [script, folder, *words]
    runpy.run_path(str(Path(__file__).with_name(script)), run_name="__main__")
