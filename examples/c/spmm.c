/* Y = A H of a row plan on one MPI rank per part, compared with the serial product.

       plancc compile graph.mtx -p 4 -o plan.h5
       mpicc -std=c11 -O2 -Iinclude $(pkg-config --cflags hdf5) examples/c/spmm.c -o spmm \
           $(pkg-config --libs hdf5) -lm
       mpirun -n 4 ./spmm plan.h5

   H[v][c] is a function of vertex and column, so that every rank can make any row of it. */
#define PLANCC_MPI
#define PLANCC_IMPLEMENTATION
#include "plancc.h"

enum { WIDTH = 3 };

static double input(int64_t vertex, int column) { return cos(0.37 * (double)vertex + column); }

static double *rows_of(int64_t count) {
  double *rows = calloc((size_t)count * WIDTH + 1, sizeof *rows);
  if (!rows) MPI_Abort(MPI_COMM_WORLD, 1);
  return rows;
}

static void multiply(const plancc_part *p, const double *own, const double *halo, double *out) {
  for (int64_t r = 0; r < p->num_rows; r++)
    for (int64_t e = p->row_ptr[r]; e < p->row_ptr[r + 1]; e++) {
      int64_t c = p->column[e];
      const double *in = c < p->num_rows ? own + c * WIDTH : halo + (c - p->num_rows) * WIDTH;
      for (int k = 0; k < WIDTH; k++) out[r * WIDTH + k] += p->value[e] * in[k];
    }
}

/* The product by one process that reads all parts and needs no message: the vertices of a part's
   received rows stand in the send tables of the others. */
static void serial(const char *path, int64_t parts, double *out, char *message) {
  plancc_part *all = calloc((size_t)parts, sizeof *all);
  for (int64_t m = 0; m < parts; m++)
    if (plancc_read_part(path, m, &all[m], message, 256)) {
      fprintf(stderr, "%s\n", message);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  for (int64_t m = 0; m < parts; m++) {
    plancc_part *p = &all[m];
    double *own = rows_of(p->num_rows), *halo = rows_of(p->num_halo);
    double *result = rows_of(p->num_rows);
    for (int64_t r = 0; r < p->num_rows; r++)
      for (int k = 0; k < WIDTH; k++) own[r * WIDTH + k] = input(p->global_id[r], k);
    for (int64_t i = 0; i < p->num_recvs; i++) {
      plancc_part *from = &all[p->recv_peer[i]];
      int64_t s = 0;
      while (from->send_peer[s] != m) s++;
      for (int64_t e = 0; e < p->recv_ptr[i + 1] - p->recv_ptr[i]; e++)
        for (int k = 0; k < WIDTH; k++)
          halo[(p->recv_ptr[i] + e) * WIDTH + k] =
              input(from->global_id[from->send_row[from->send_ptr[s] + e]], k);
    }
    multiply(p, own, halo, result);
    for (int64_t r = 0; r < p->num_rows; r++)
      memcpy(out + (int64_t)p->global_id[r] * WIDTH, result + r * WIDTH, WIDTH * sizeof *out);
    free(own);
    free(halo);
    free(result);
  }
  for (int64_t m = 0; m < parts; m++) plancc_free_part(&all[m]);
  free(all);
}

int main(int argc, char **argv) {
  char message[256];
  int rank;
  plancc_part p;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 2 || plancc_read_part(argv[1], rank, &p, message, sizeof message)) {
    fprintf(stderr, "%s\n", argc < 2 ? "usage: spmm plan.h5 [product.txt]" : message);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  double *own = rows_of(p.num_rows), *halo = rows_of(p.num_halo), *out = rows_of(p.num_rows);
  for (int64_t r = 0; r < p.num_rows; r++)
    for (int k = 0; k < WIDTH; k++) own[r * WIDTH + k] = input(p.global_id[r], k);
  if (plancc_exchange(&p, WIDTH, own, halo, MPI_COMM_WORLD, message, sizeof message)) {
    fprintf(stderr, "%s\n", message);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  multiply(&p, own, halo, out);

  int64_t n = p.num_vertices;
  double *mine = rows_of(n), *product = rows_of(n);
  for (int64_t r = 0; r < p.num_rows; r++)
    memcpy(mine + (int64_t)p.global_id[r] * WIDTH, out + r * WIDTH, WIDTH * sizeof *out);
  MPI_Reduce(mine, product, (int)(n * WIDTH), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    double *expected = rows_of(n), worst = 0;
    serial(argv[1], p.num_parts, expected, message);
    for (int64_t k = 0; k < n * WIDTH; k++) worst = fmax(worst, fabs(product[k] - expected[k]));
    printf("%lld rows on %lld ranks, largest difference to the serial product %g\n", (long long)n,
           (long long)p.num_parts, worst);
    if (argc > 2) {
      FILE *file = fopen(argv[2], "w");
      for (int64_t k = 0; file && k < n * WIDTH; k++) fprintf(file, "%.17g\n", product[k]);
      if (!file || fclose(file)) MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (worst > 1e-12) MPI_Abort(MPI_COMM_WORLD, 1);
    free(expected);
  }
  free(own);
  free(halo);
  free(out);
  free(mine);
  free(product);
  plancc_free_part(&p);
  MPI_Finalize();
  return 0;
}
