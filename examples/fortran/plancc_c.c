/* The implementation of plancc.h as an object file, for programs in Fortran. */
#define PLANCC_MPI
#define PLANCC_IMPLEMENTATION
#include "plancc.h"
