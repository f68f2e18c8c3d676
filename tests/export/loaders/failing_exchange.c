/* One exchange in which a call of MPI fails: failing_exchange PLAN CALL NUMBER. Call number NUMBER,
   from 0, of CALL fails on every rank; CALL "none" fails nowhere. Every rank prints what
   plancc_exchange returned and its message. */
#define PLANCC_MPI
#define PLANCC_IMPLEMENTATION
#include "plancc.h"

static const char *failing = "none";
static int left;

static int fails(const char *call) { return !strcmp(call, failing) && left-- == 0; }

/* MPI's profiling interface: these stand in front of the functions of the library. A call that
   fails leaves its request as it was. */
int MPI_Comm_size(MPI_Comm comm, int *size) {
  return fails("size") ? MPI_ERR_COMM : PMPI_Comm_size(comm, size);
}

int MPI_Type_commit(MPI_Datatype *type) {
  return fails("commit") ? MPI_ERR_TYPE : PMPI_Type_commit(type);
}

int MPI_Irecv(void *rows, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request) {
  return fails("receive") ? MPI_ERR_OTHER
                          : PMPI_Irecv(rows, count, type, peer, tag, comm, request);
}

int MPI_Isend(const void *rows, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request) {
  return fails("send") ? MPI_ERR_OTHER
                       : PMPI_Isend(rows, count, type, peer, tag, comm, request);
}

int MPI_Waitall(int count, MPI_Request *request, MPI_Status *status) {
  return fails("wait") ? MPI_ERR_OTHER : PMPI_Waitall(count, request, status);
}

int main(int argc, char **argv) {
  char message[256];
  int rank;
  plancc_part p;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc != 4 || plancc_read_part(argv[1], rank, &p, message, sizeof message))
    MPI_Abort(MPI_COMM_WORLD, 2);
  double *own = calloc((size_t)p.num_rows + 1, sizeof *own);
  double *halo = calloc((size_t)p.num_halo + 1, sizeof *halo);
  failing = argv[2];
  left = atoi(argv[3]);
  int wrong = plancc_exchange(&p, 1, own, halo, MPI_COMM_WORLD, message, sizeof message);
  printf("%d %s\n", wrong, message);
  free(halo); /* nothing arrives in it any more */
  free(own);
  plancc_free_part(&p);
  MPI_Finalize();
  return 0;
}
