/* Reads one part by plancc.h, without MPI: read_part PLAN PART. */
#define PLANCC_IMPLEMENTATION
#include "plancc.h"

int main(int argc, char **argv) {
  char message[512];
  plancc_part part;
  if (argc != 3) return 2;
  if (plancc_read_part(argv[1], atoll(argv[2]), &part, message, sizeof message)) {
    puts(message);
    return 1;
  }
  for (int64_t r = 0; r < part.num_rows; r++)
    printf("%lld %lld\n", (long long)part.global_id[r],
           part.original_id ? (long long)part.original_id[r] : -1LL);
  plancc_free_part(&part);
  return 0;
}
