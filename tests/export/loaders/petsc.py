"""What PETSc makes of an export, with a product: python petsc.py FOLDER REFERENCE."""

import sys

import numpy as np
import petsc4py
from petsc4py import PETSc

folder, reference = sys.argv[1], np.load(sys.argv[2])
comm, rank = PETSc.COMM_WORLD, PETSc.COMM_WORLD.rank


def index_set(name):
    return PETSc.IS().load(PETSc.Viewer().createBinary(f"{folder}/{name}", comm=PETSc.COMM_SELF))


rows = index_set("rows_per_rank.is").array
order = index_set("ordering.is").array
halo = index_set(f"halo/{rank}.is").array
assert len(rows) == comm.size, "start one rank for every part"
matrix = PETSc.Mat().create(comm)
matrix.setSizes(((rows[rank], len(order)), (rows[rank], len(order))))
matrix.setType("aij")
matrix.load(PETSc.Viewer().createBinary(f"{folder}/matrix.petsc", comm=comm))
first, last = matrix.getOwnershipRange()
vertex = order[first:last]
assert (reference["owner"][vertex] == rank).all()
# the columns that PETSc receives are those of the plan
used = np.unique(matrix.getValuesCSR()[1])
np.testing.assert_array_equal(used[(used < first) | (used >= last)], halo)

features = PETSc.Mat().create(comm)
features.setSizes(((rows[rank], len(order)), (None, reference["features"].shape[1])))
features.setType("dense")
features.load(PETSc.Viewer().createBinary(f"{folder}/features.petsc", comm=comm))
np.testing.assert_array_equal(features.getDenseArray(), reference["features"][vertex])

product = matrix.matMult(features).getDenseArray()
wanted = reference["matrix"] @ reference["features"]
np.testing.assert_allclose(product, wanted[vertex], rtol=1e-13, atol=1e-14)
comm.barrier()
if rank == 0:
    print("loaded by PETSc", ".".join(map(str, PETSc.Sys.getVersion())), petsc4py.__version__)
