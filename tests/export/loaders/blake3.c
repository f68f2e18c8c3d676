/* The BLAKE3 hash of a file, added in pieces of so many bytes: blake3 FILE PIECE. */
#define PLANCC_IMPLEMENTATION
#include "plancc.h"

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  size_t piece = (size_t)strtoul(argv[2], NULL, 10), found;
  unsigned char digest[32], *bytes = malloc(piece);
  FILE *file = fopen(argv[1], "rb");
  if (!file || !bytes) return 1;
  plancc__hash hash;
  plancc__hash_start(&hash);
  while ((found = fread(bytes, 1, piece, file)) > 0) plancc__hash_add(&hash, bytes, found);
  plancc__hash_end(&hash, digest);
  for (int k = 0; k < 32; k++) printf("%02x", digest[k]);
  fclose(file);
  free(bytes);
  return 0;
}
