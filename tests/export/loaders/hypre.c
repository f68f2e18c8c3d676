/* What hypre makes of an export: hypre FOLDER VECTOR PRODUCT, one rank for every part.
   It reads the matrix, lets hypre build its own communication package, compares every array with
   that of the export, multiplies VECTOR and compares with PRODUCT (a number per line, in plan
   order, computed elsewhere). */
#include <HYPRE.h>
#include <HYPRE_IJ_mv.h>
#include <_hypre_parcsr_mv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *comm_file;

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void expect(const char *name, const long long *own, long long count) {
  char word[64];
  long long length, number;
  if (fscanf(comm_file, "%63s %lld", word, &length) != 2 || strcmp(word, name)) fail(name);
  if (length != count) fail("an array has another length than hypre's");
  for (long long k = 0; k < length; k++)
    if (fscanf(comm_file, "%lld", &number) != 1 || number != own[k])
      fail("an array differs from hypre's");
}

static void expect_ints(const char *name, const HYPRE_Int *own, long long count) {
  long long *wide = malloc((size_t)(count + 1) * sizeof *wide);
  for (long long k = 0; k < count; k++) wide[k] = own[k];
  expect(name, wide, count);
  free(wide);
}

static double line_of(const char *path, long long line) {
  FILE *file = fopen(path, "r");
  double number = 0;
  for (long long k = 0; k <= line; k++)
    if (!file || fscanf(file, "%lf", &number) != 1) fail("too few numbers");
  fclose(file);
  return number;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  HYPRE_Init();
  if (argc != 4) fail("usage: hypre FOLDER VECTOR PRODUCT");
  int rank;
  char path[4096];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(path, sizeof path, "%s/matrix", argv[1]);
  HYPRE_IJMatrix matrix;
  void *object;
  if (HYPRE_IJMatrixRead(path, MPI_COMM_WORLD, HYPRE_PARCSR, &matrix)) fail("not readable");
  HYPRE_IJMatrixGetObject(matrix, &object);
  hypre_ParCSRMatrix *A = object;
  if (!hypre_ParCSRMatrixCommPkg(A)) hypre_MatvecCommPkgCreate(A);
  hypre_ParCSRCommPkg *pkg = hypre_ParCSRMatrixCommPkg(A);
  HYPRE_Int sends = hypre_ParCSRCommPkgNumSends(pkg), recvs = hypre_ParCSRCommPkgNumRecvs(pkg);
  HYPRE_Int *send_starts = hypre_ParCSRCommPkgSendMapStarts(pkg);
  HYPRE_Int *recv_starts = hypre_ParCSRCommPkgRecvVecStarts(pkg);

  snprintf(path, sizeof path, "%s/comm.%05d", argv[1], rank);
  if (!(comm_file = fopen(path, "r"))) fail("no comm file");
  expect_ints("send_procs", hypre_ParCSRCommPkgSendProcs(pkg), sends);
  expect_ints("send_map_starts", send_starts, sends + 1);
  expect_ints("send_map_elmts", hypre_ParCSRCommPkgSendMapElmts(pkg), send_starts[sends]);
  expect_ints("recv_procs", hypre_ParCSRCommPkgRecvProcs(pkg), recvs);
  expect_ints("recv_vec_starts", recv_starts, recvs + 1);
  HYPRE_BigInt *columns = hypre_ParCSRMatrixColMapOffd(A);
  long long *wide = malloc(((size_t)recv_starts[recvs] + 1) * sizeof *wide);
  for (HYPRE_Int k = 0; k < recv_starts[recvs]; k++) wide[k] = columns[k];
  expect("col_map_offd", wide, recv_starts[recvs]);
  fclose(comm_file);

  HYPRE_BigInt first = hypre_ParCSRMatrixFirstRowIndex(A);
  HYPRE_Int rows = hypre_ParCSRMatrixNumRows(A);
  HYPRE_IJVector in, out;
  HYPRE_IJVector *both[] = {&in, &out};
  void *x, *y;
  for (int k = 0; k < 2; k++) {
    HYPRE_IJVectorCreate(MPI_COMM_WORLD, first, first + rows - 1, both[k]);
    HYPRE_IJVectorSetObjectType(*both[k], HYPRE_PARCSR);
    HYPRE_IJVectorInitialize(*both[k]);
    for (HYPRE_BigInt row = first; row < first + rows; row++) {
      double value = k ? 0.0 : line_of(argv[2], row);
      HYPRE_IJVectorSetValues(*both[k], 1, &row, &value);
    }
    HYPRE_IJVectorAssemble(*both[k]);
    HYPRE_IJVectorGetObject(*both[k], k ? &y : &x);
  }
  HYPRE_ParCSRMatrixMatvec(1.0, object, x, 0.0, y);
  for (HYPRE_BigInt row = first; row < first + rows; row++) {
    double product;
    HYPRE_IJVectorGetValues(out, 1, &row, &product);
    if (fabs(product - line_of(argv[3], row)) > 1e-12) fail("the product differs");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("loaded by hypre %s\n", HYPRE_RELEASE_VERSION);
  free(wide);
  HYPRE_IJMatrixDestroy(matrix);
  HYPRE_Finalize();
  MPI_Finalize();
  return 0;
}
