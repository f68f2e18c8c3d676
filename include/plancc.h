/* plancc.h: reads one part of a row plan (docs/reference/plan-format.md, versions 1.5 to 1.x) and
   exchanges the rows that the parts need from each other. C11; needs HDF5's C library, and MPI on request.

   In exactly one source file:

       #define PLANCC_MPI              // only for plancc_exchange; includes mpi.h
       #define PLANCC_IMPLEMENTATION
       #include "plancc.h"

   In every other: #include "plancc.h" (with PLANCC_MPI where plancc_exchange is called).

       mpicc -std=c11 -O2 -Iinclude $(pkg-config --cflags hdf5) spmm.c -o spmm \
           $(pkg-config --libs hdf5) -lm

   A function that can fail returns 0 for success, else 1 and a sentence in `message`. No function
   prints, and only MPI itself aborts (see plancc_exchange). A file is not trusted: sizes are
   checked against its header and its stored bytes before memory is allocated, and numbers are
   checked before they are used as indices. All data that are read are compared with their digests
   (BLAKE3); the content hash over the digests is not checked.

   MIT licence, as plancc. */
#ifndef PLANCC_H
#define PLANCC_H

#include <stddef.h>
#include <stdint.h>
#ifdef PLANCC_MPI
#include <mpi.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One part of a row plan. Local row r is vertex global_id[r]; local column c is the part's own row
   c if c < num_rows, else the received row c - num_rows. */
typedef struct plancc_part {
  int64_t num_vertices, num_nonzeros_total, num_parts; /* of the whole plan */
  int64_t part;                                        /* number of this part, from 0 */
  int64_t first_row;                                   /* number of its first row in plan order */
  int64_t num_rows, num_halo, num_nonzeros;            /* own rows, received rows, own nonzeros */
  int64_t num_interior; /* rows 0..num_interior-1 use own columns only */
  int32_t *global_id;   /* num_rows */
  int64_t *original_id; /* num_rows; NULL if ids are vertex numbers, or names */
  int64_t *row_ptr;     /* num_rows + 1 */
  int32_t *column;      /* num_nonzeros */
  double *value;        /* num_nonzeros */
  int64_t num_sends;    /* messages that leave; send k goes to send_peer[k] and has the */
  int32_t *send_peer;   /* local rows send_row[send_ptr[k] .. send_ptr[k+1]-1] */
  int64_t *send_ptr;
  int32_t *send_row;
  int64_t num_recvs;  /* messages that arrive; receive k is from recv_peer[k] and fills the halo */
  int32_t *recv_peer; /* rows recv_ptr[k] .. recv_ptr[k+1]-1 */
  int64_t *recv_ptr;
} plancc_part;

/* Read part number `part` of the plan at `path`; plancc_free_part frees it. Plans of layout "row"
   only. On failure *out is empty. */
int plancc_read_part(const char *path, int64_t part, plancc_part *out, char *message,
                     size_t message_size);

void plancc_free_part(plancc_part *part);

#ifdef PLANCC_MPI
#ifndef PLANCC_TAG
#define PLANCC_TAG 4711 /* MPI tag of plancc_exchange's messages; define it before to change it */
#endif

/* Send own rows to the parts that need them and receive the halo, both row-major and `width` wide:
   own has num_rows rows, halo num_halo. Collective over `comm`, whose rank m has part m.

   Messages have the tag PLANCC_TAG. If your program may have other messages with this tag, or a
   receive with MPI_ANY_TAG, under way on `comm`, pass a communicator made by MPI_Comm_dup.

   By MPI's default an error of MPI ends the program. The function returns 1 instead if the caller
   has set MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN). For errors of the call that makes a
   datatype, set the same handler on MPI_COMM_WORLD (before MPI 4.0) or MPI_COMM_SELF. If one rank
   fails, other ranks may wait for it, and messages may be left over: call MPI_Abort. */
int plancc_exchange(const plancc_part *part, int width, const double *own, double *halo,
                    MPI_Comm comm, char *message, size_t message_size);

/* plancc_exchange with a communicator of Fortran (examples/fortran). */
int plancc_exchange_f(const plancc_part *part, int width, const double *own, double *halo,
                      MPI_Fint comm, char *message, size_t message_size);
#endif

#ifdef __cplusplus
}
#endif
#endif /* PLANCC_H */

#if defined(PLANCC_IMPLEMENTATION) && !defined(PLANCC_IMPLEMENTED)
#define PLANCC_IMPLEMENTED

#include <hdf5.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* BLAKE3 without a key, 32 bytes: O'Connor, Aumasson, Neves, Wilcox-O'Hearn 2020, sections 2.1 to
   2.6. One thread. */
enum { PLANCC__START = 1, PLANCC__END = 2, PLANCC__PARENT = 4, PLANCC__ROOT = 8 };

static const uint32_t plancc__iv[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                       0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};

typedef struct plancc__hash {
  uint32_t cv[8];        /* chaining value of the current chunk, after `blocks` blocks */
  uint64_t chunks;       /* complete chunks before the current chunk */
  unsigned blocks, fill; /* `fill`: bytes that wait in `block` */
  unsigned char block[64];
  unsigned depth; /* entries of the stack: one for each set bit of `chunks` */
  uint32_t stack[54][8];
} plancc__hash;

static void plancc__mix(uint32_t *v, int a, int b, int c, int d, uint32_t x, uint32_t y) {
  v[a] += v[b] + x;
  v[d] = (v[d] ^ v[a]) >> 16 | (v[d] ^ v[a]) << 16;
  v[c] += v[d];
  v[b] = (v[b] ^ v[c]) >> 12 | (v[b] ^ v[c]) << 20;
  v[a] += v[b] + y;
  v[d] = (v[d] ^ v[a]) >> 8 | (v[d] ^ v[a]) << 24;
  v[c] += v[d];
  v[b] = (v[b] ^ v[c]) >> 7 | (v[b] ^ v[c]) << 25;
}

/* Compress a block: cv becomes the first half of the compression function's output. */
static void plancc__compress(uint32_t cv[8], const uint32_t block[16], uint64_t counter,
                             unsigned length, unsigned flags) {
  static const unsigned char order[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
  uint32_t v[16], m[16], next[16];
  memcpy(m, block, sizeof m);
  memcpy(v, cv, 32);
  memcpy(v + 8, plancc__iv, 16);
  v[12] = (uint32_t)counter;
  v[13] = (uint32_t)(counter >> 32);
  v[14] = length;
  v[15] = flags;
  for (int round = 0; round < 7; round++) {
    for (int k = 0; k < 4; k++)
      plancc__mix(v, k, 4 + k, 8 + k, 12 + k, m[2 * k], m[2 * k + 1]);
    for (int k = 0; k < 4; k++)
      plancc__mix(v, k, 4 + (k + 1) % 4, 8 + (k + 2) % 4, 12 + (k + 3) % 4, m[8 + 2 * k],
                  m[9 + 2 * k]);
    for (int k = 0; k < 16; k++) next[k] = m[order[k]];
    memcpy(m, next, sizeof m);
  }
  for (int k = 0; k < 8; k++) cv[k] = v[k] ^ v[8 + k];
}

/* Write the waiting block as 16 words, with zeros after its bytes. */
static void plancc__words(const plancc__hash *h, uint32_t words[16]) {
  for (unsigned k = 0; k < 16; k++) {
    words[k] = 0;
    for (unsigned j = 0; j < 4 && 4 * k + j < h->fill; j++)
      words[k] |= (uint32_t)h->block[4 * k + j] << (8 * j);
  }
}

static void plancc__hash_start(plancc__hash *h) {
  memset(h, 0, sizeof *h);
  memcpy(h->cv, plancc__iv, sizeof h->cv);
}

/* Add a full block, which is not the last, to the chunk; add a full chunk to the tree. */
static void plancc__hash_block(plancc__hash *h) {
  uint32_t words[16], pair[16];
  unsigned flags = (h->blocks ? 0u : (unsigned)PLANCC__START);
  plancc__words(h, words);
  h->fill = 0;
  if (h->blocks < 15) {
    plancc__compress(h->cv, words, h->chunks, 64, flags);
    h->blocks++;
    return;
  }
  plancc__compress(h->cv, words, h->chunks, 64, flags | PLANCC__END);
  h->chunks++;
  for (uint64_t total = h->chunks; !(total & 1); total >>= 1) {
    memcpy(pair, h->stack[--h->depth], 32);
    memcpy(pair + 8, h->cv, 32);
    memcpy(h->cv, plancc__iv, 32);
    plancc__compress(h->cv, pair, 0, 64, PLANCC__PARENT);
  }
  memcpy(h->stack[h->depth++], h->cv, 32);
  memcpy(h->cv, plancc__iv, 32);
  h->blocks = 0;
}

static void plancc__hash_add(plancc__hash *h, const void *data, size_t size) {
  const unsigned char *bytes = data;
  while (size) {
    if (h->fill == 64) plancc__hash_block(h);
    size_t many = 64 - h->fill < size ? 64 - h->fill : size;
    memcpy(h->block + h->fill, bytes, many);
    h->fill += (unsigned)many;
    bytes += many;
    size -= many;
  }
}

static void plancc__hash_end(plancc__hash *h, unsigned char digest[32]) {
  uint32_t words[16];
  unsigned length = h->fill, flags = (h->blocks ? 0u : (unsigned)PLANCC__START) | PLANCC__END;
  uint64_t counter = h->chunks;
  plancc__words(h, words);
  while (h->depth) {
    plancc__compress(h->cv, words, counter, length, flags);
    memcpy(words, h->stack[--h->depth], 32);
    memcpy(words + 8, h->cv, 32);
    memcpy(h->cv, plancc__iv, 32);
    length = 64;
    flags = PLANCC__PARENT;
    counter = 0;
  }
  plancc__compress(h->cv, words, counter, length, flags | PLANCC__ROOT);
  for (int k = 0; k < 32; k++) digest[k] = (unsigned char)(h->cv[k / 4] >> (8 * (k % 4)));
}

typedef struct plancc__reader {
  const char *path;
  hid_t file;
  int64_t part, num_parts;
  char *message;
  size_t message_size;
} plancc__reader;

static int plancc__fail(const plancc__reader *r, const char *format, ...) {
  if (r->message && r->message_size) {
    char words[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    snprintf(r->message, r->message_size, "%s: %s", r->path, words);
  }
  return 1;
}

static int plancc__is_hard(hid_t file, const char *name) {
  H5L_info_t info;
  return H5Lexists(file, name, H5P_DEFAULT) > 0 &&
         H5Lget_info(file, name, &info, H5P_DEFAULT) >= 0 && info.type == H5L_TYPE_HARD;
}

/* Most bytes of numbers for each stored byte; deflate reaches at most 1032. */
enum { PLANCC__MAX_DEFLATION = 1100 };

/* Whether the file itself holds the dataset, and only filters of the format are used. */
static int plancc__is_plain(hid_t dataset, int *deflated) {
  hid_t list = H5Dget_create_plist(dataset);
  if (list < 0) return 0;
  H5D_layout_t layout = H5Pget_layout(list);
  int good = (layout == H5D_CONTIGUOUS || layout == H5D_CHUNKED || layout == H5D_COMPACT) &&
             H5Pget_external_count(list) == 0;
  int filters = good ? H5Pget_nfilters(list) : 0;
  *deflated = 0;
  for (int k = 0; k < filters; k++) {
    unsigned flags, options;
    size_t none = 0;
    H5Z_filter_t filter =
        H5Pget_filter2(list, (unsigned)k, &flags, &none, NULL, 0, NULL, &options);
    *deflated |= filter == H5Z_FILTER_DEFLATE;
    good = good && (filter == H5Z_FILTER_SHUFFLE || filter == H5Z_FILTER_DEFLATE);
  }
  H5Pclose(list);
  return good && filters >= 0;
}

/* Whether the bytes that the file stores for the dataset can hold its `size` numbers. */
static int plancc__is_stored(hid_t file, hid_t dataset, hsize_t size, int deflated) {
  hsize_t stored = H5Dget_storage_size(dataset), bytes = 0;
  hid_t type = H5Dget_type(dataset);
  size_t of_one = type < 0 ? 0 : H5Tget_size(type);
  if (type >= 0) H5Tclose(type);
  if (!of_one || H5Fget_filesize(file, &bytes) < 0) return 0;
  if (stored > bytes) return 0; /* a damaged header can claim any storage */
  return size <= stored * (deflated ? PLANCC__MAX_DEFLATION : 1) / of_one;
}

/* Open a one-dimensional dataset "group/name" and return its length. */
static int plancc__open(const plancc__reader *r, const char *name, hid_t *dataset,
                        int64_t *length) {
  char group[64];
  const char *slash = strchr(name, '/');
  snprintf(group, sizeof group, "%.*s", (int)(slash - name), name);
  if (!plancc__is_hard(r->file, group) || !plancc__is_hard(r->file, name))
    return plancc__fail(r, "dataset /%s is missing, or a link", name);
  *dataset = H5Dopen2(r->file, name, H5P_DEFAULT);
  if (*dataset < 0) return plancc__fail(r, "/%s is no dataset", name);
  hsize_t size = 0;
  hid_t space = H5Dget_space(*dataset);
  int good = space >= 0 && H5Sget_simple_extent_type(space) == H5S_SIMPLE &&
             H5Sget_simple_extent_ndims(space) == 1 &&
             H5Sget_simple_extent_dims(space, &size, NULL) == 1 && size <= (hsize_t)INT64_MAX;
  if (space >= 0) H5Sclose(space);
  int deflated = 0;
  if (good && plancc__is_plain(*dataset, &deflated)) {
    *length = (int64_t)size;
    if (plancc__is_stored(r->file, *dataset, size, deflated)) return 0;
    plancc__fail(r, "dataset /%s is not completely stored in the file", name);
  } else {
    plancc__fail(r, "dataset /%s is no list that the file itself holds", name);
  }
  H5Dclose(*dataset);
  return 1;
}

/* Read row `row` of the `rows` digests of /digests/`name`. */
static int plancc__digest(const plancc__reader *r, const char *name, int64_t row, int64_t rows,
                          unsigned char digest[32]) {
  char path[96], group[96];
  int good = 0, deflated = 0;
  snprintf(path, sizeof path, "digests/%s", name);
  snprintf(group, sizeof group, "digests/%.*s", (int)(strchr(name, '/') - name), name);
  hid_t dataset = -1;
  if (plancc__is_hard(r->file, "digests") && plancc__is_hard(r->file, group) &&
      plancc__is_hard(r->file, path))
    dataset = H5Dopen2(r->file, path, H5P_DEFAULT);
  if (dataset >= 0) {
    hsize_t size[2] = {0, 0}, first[2] = {(hsize_t)row, 0}, many[2] = {1, 32}, flat = 32;
    hid_t type = H5Dget_type(dataset), all = H5Dget_space(dataset);
    hid_t space = H5Screate_simple(1, &flat, NULL);
    good = type >= 0 && all >= 0 && space >= 0 && H5Tequal(type, H5T_STD_U8LE) > 0 &&
           H5Sget_simple_extent_ndims(all) == 2 &&
           H5Sget_simple_extent_dims(all, size, NULL) == 2 && size[0] == (hsize_t)rows &&
           size[1] == 32 && plancc__is_plain(dataset, &deflated) &&
           plancc__is_stored(r->file, dataset, size[0] * 32, deflated) &&
           H5Sselect_hyperslab(all, H5S_SELECT_SET, first, NULL, many, NULL) >= 0 &&
           H5Dread(dataset, H5T_NATIVE_UINT8, space, all, H5P_DEFAULT, digest) >= 0;
    if (space >= 0) H5Sclose(space);
    if (all >= 0) H5Sclose(all);
    if (type >= 0) H5Tclose(type);
    H5Dclose(dataset);
  }
  return good ? 0 : plancc__fail(r, "/%s is missing, or no list of digests: damaged", path);
}

/* Compare entries of a dataset with the part's digest; a short table has one digest in all. */
static int plancc__compare(const plancc__reader *r, const char *name, hid_t dataset,
                           int64_t length, int64_t start, int64_t count) {
  enum { AT_ONCE = 1 << 16 };
  static const char *const shared[] = {"rows/part_ptr", "rows/num_interior", "expand/send_ptr",
                                       "expand/recv_ptr"};
  unsigned char said[32], found[32], *bytes;
  plancc__hash hash;
  int whole = 0, good = 1;
  for (size_t k = 0; k < sizeof shared / sizeof *shared; k++) whole |= !strcmp(name, shared[k]);
  if (plancc__digest(r, name, whole ? 0 : r->part, whole ? 1 : r->num_parts, said)) return 1;
  if (whole) {
    start = 0;
    count = length;
  }
  hid_t type = H5Dget_type(dataset), all = H5Dget_space(dataset);
  size_t size = type < 0 ? 8 : H5Tget_size(type);
  bytes = malloc((size_t)AT_ONCE * size);
  plancc__hash_start(&hash);
  for (int64_t done = 0; done < count && good && bytes; done += AT_ONCE) {
    hsize_t first = (hsize_t)(start + done), many = AT_ONCE;
    if (many > (hsize_t)(count - done)) many = (hsize_t)(count - done);
    hid_t space = H5Screate_simple(1, &many, NULL);
    good = type >= 0 && all >= 0 && space >= 0 &&
           H5Sselect_hyperslab(all, H5S_SELECT_SET, &first, NULL, &many, NULL) >= 0 &&
           H5Dread(dataset, type, space, all, H5P_DEFAULT, bytes) >= 0;
    if (space >= 0) H5Sclose(space);
    if (good) plancc__hash_add(&hash, bytes, (size_t)many * size);
  }
  if (all >= 0) H5Sclose(all);
  if (type >= 0) H5Tclose(type);
  if (!bytes) return plancc__fail(r, "not enough memory to check /%s", name);
  free(bytes);
  plancc__hash_end(&hash, found);
  if (good && !memcmp(said, found, 32)) return 0;
  return plancc__fail(r, "/%s does not have its digest: damaged", name);
}

/* Read entries start .. start+count-1 of a dataset into a new array of type `memory`. */
static int plancc__slice(const plancc__reader *r, const char *name, hid_t memory, int64_t length,
                         int64_t start, int64_t count, void *array) {
  hid_t dataset;
  int64_t found;
  *(void **)array = NULL;
  if (plancc__open(r, name, &dataset, &found)) return 1;
  int wrong = 1, floating = H5Tget_class(memory) == H5T_FLOAT;
  size_t size = H5Tget_size(memory);
  hid_t type = H5Dget_type(dataset);
  hid_t stored = size == 4 ? H5T_STD_I32LE : H5T_STD_I64LE;
  int typed = type >= 0 && (floating ? H5Tequal(type, H5T_IEEE_F32LE) > 0 ||
                                           H5Tequal(type, H5T_IEEE_F64LE) > 0
                                     : H5Tequal(type, stored) > 0);
  if (type >= 0) H5Tclose(type);
  if (found != length) {
    plancc__fail(r, "dataset /%s has %lld entries, not %lld", name, (long long)found,
                 (long long)length);
  } else if (!typed) {
    plancc__fail(r, "dataset /%s is of another type than the format says", name);
  } else if (start < 0 || count < 0 || start > length - count) {
    plancc__fail(r, "dataset /%s ends before entry %lld", name, (long long)(start + count));
  } else if ((uint64_t)count >= SIZE_MAX / size ||
             !(*(void **)array = malloc(((size_t)count + 1) * size))) {
    plancc__fail(r, "not enough memory for %lld entries of /%s", (long long)count, name);
  } else if (count == 0) {
    wrong = 0;
  } else {
    hsize_t first = (hsize_t)start, many = (hsize_t)count;
    hid_t file_space = H5Dget_space(dataset), space = H5Screate_simple(1, &many, NULL);
    wrong = file_space < 0 || space < 0 ||
            H5Sselect_hyperslab(file_space, H5S_SELECT_SET, &first, NULL, &many, NULL) < 0 ||
            H5Dread(dataset, memory, space, file_space, H5P_DEFAULT, *(void **)array) < 0;
    if (space >= 0) H5Sclose(space);
    if (file_space >= 0) H5Sclose(file_space);
    if (wrong) plancc__fail(r, "dataset /%s is not readable: damaged", name);
  }
  if (!wrong) wrong = plancc__compare(r, name, dataset, length, start, count);
  H5Dclose(dataset);
  if (wrong) {
    free(*(void **)array);
    *(void **)array = NULL;
  }
  return wrong;
}

static int plancc__integer(const plancc__reader *r, const char *name, int64_t least, int64_t most,
                           int64_t *value) {
  int good = 0;
  if (H5Aexists(r->file, name) > 0) {
    hid_t attribute = H5Aopen(r->file, name, H5P_DEFAULT);
    if (attribute >= 0) {
      hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
      good = type >= 0 && space >= 0 && H5Tequal(type, H5T_STD_I64LE) > 0 &&
             H5Sget_simple_extent_npoints(space) == 1 &&
             H5Aread(attribute, H5T_NATIVE_INT64, value) >= 0;
      if (type >= 0) H5Tclose(type);
      if (space >= 0) H5Sclose(space);
      H5Aclose(attribute);
    }
  }
  if (good && *value >= least && *value <= most) return 0;
  return plancc__fail(r, "attribute %s is missing or out of range: no plan, or damaged", name);
}

static int plancc__text(const plancc__reader *r, const char *name, char *words, size_t size) {
  int good = 0;
  words[0] = '\0';
  if (H5Aexists(r->file, name) > 0) {
    hid_t attribute = H5Aopen(r->file, name, H5P_DEFAULT);
    hid_t type = attribute < 0 ? -1 : H5Aget_type(attribute);
    hid_t space = attribute < 0 ? -1 : H5Aget_space(attribute);
    if (type >= 0 && space >= 0 && H5Tget_class(type) == H5T_STRING &&
        H5Tis_variable_str(type) == 0 && H5Sget_simple_extent_npoints(space) == 1 &&
        H5Tget_size(type) < size) {
      hid_t memory = H5Tcopy(H5T_C_S1);
      H5Tset_cset(memory, H5Tget_cset(type));
      H5Tset_size(memory, H5Tget_size(type) + 1);
      good = H5Aread(attribute, memory, words) >= 0;
      H5Tclose(memory);
    }
    if (type >= 0) H5Tclose(type);
    if (space >= 0) H5Sclose(space);
    if (attribute >= 0) H5Aclose(attribute);
  }
  return good ? 0 : plancc__fail(r, "attribute %s is missing: no plan, or damaged", name);
}

/* Read offsets first .. last, and check that they never fall and lie in 0 .. most. */
static int plancc__offsets(const plancc__reader *r, const char *name, int64_t length,
                           int64_t first, int64_t last, int64_t most, int64_t **ptr) {
  if (plancc__slice(r, name, H5T_NATIVE_INT64, length, first, last - first + 1, ptr)) return 1;
  int good = (*ptr)[0] >= 0 && (*ptr)[last - first] <= most && (first || !(*ptr)[0]);
  for (int64_t k = 0; k < last - first; k++) good = good && (*ptr)[k] <= (*ptr)[k + 1];
  return good ? 0 : plancc__fail(r, "/%s does not hold offsets: damaged", name);
}

static int plancc__length(const plancc__reader *r, const char *name, int64_t *length) {
  hid_t dataset;
  if (plancc__open(r, name, &dataset, length)) return 1;
  H5Dclose(dataset);
  return 0;
}

/* Whether a dataset exists and holds no text. */
static int plancc__has_numbers(const plancc__reader *r, const char *name) {
  if (H5Lexists(r->file, name, H5P_DEFAULT) <= 0) return 0;
  hid_t dataset = H5Dopen2(r->file, name, H5P_DEFAULT);
  hid_t type = dataset < 0 ? H5I_INVALID_HID : H5Dget_type(dataset);
  int text = type >= 0 && H5Tget_class(type) == H5T_STRING;
  if (type >= 0) H5Tclose(type);
  if (dataset >= 0) H5Dclose(dataset);
  return !text;
}

/* Read one side of the exchange: its peers, and offsets that start at 0. *before is the number of
   the part's first entry in the row table. */
static int plancc__messages(const plancc__reader *r, const char *side, const plancc_part *p,
                            int64_t *count, int32_t **peer, int64_t **ptr, int64_t *before,
                            int64_t *volume) {
  char peers[64], offsets[64], row_offsets[64], rows[64];
  int64_t messages, *range = NULL;
  snprintf(peers, sizeof peers, "expand/%s_peer", side);
  snprintf(offsets, sizeof offsets, "expand/%s_ptr", side);
  snprintf(row_offsets, sizeof row_offsets, "expand/%s_row_ptr", side);
  snprintf(rows, sizeof rows, "expand/%s_row", side);
  if (plancc__length(r, peers, &messages) || plancc__length(r, rows, volume) ||
      plancc__offsets(r, offsets, p->num_parts + 1, p->part, p->part + 1, messages, &range)) {
    free(range);
    return 1;
  }
  int64_t first = range[0], last = range[1];
  free(range);
  if (last - first > p->num_parts - 1)
    return plancc__fail(r, "/%s gives part %lld too many messages: damaged", offsets,
                        (long long)p->part);
  *count = last - first;
  if (plancc__slice(r, peers, H5T_NATIVE_INT32, messages, first, *count, peer) ||
      plancc__offsets(r, row_offsets, messages + 1, first, last, *volume, ptr))
    return 1;
  int good = 1;
  for (int64_t k = 0; k < *count; k++)
    good = good && (*peer)[k] >= 0 && (*peer)[k] < p->num_parts && (*peer)[k] != p->part &&
           (!k || (*peer)[k] > (*peer)[k - 1]) && (*ptr)[k] < (*ptr)[k + 1];
  if (!good) return plancc__fail(r, "/%s is not as the format says: damaged", peers);
  *before = (*ptr)[0];
  for (int64_t k = 0; k <= *count; k++) (*ptr)[k] -= *before;
  return 0;
}

static int plancc__check_matrix(const plancc__reader *r, const plancc_part *p) {
  for (int64_t k = 0; k < p->num_nonzeros; k++) {
    if (p->column[k] < 0 || p->column[k] >= p->num_rows + p->num_halo)
      return plancc__fail(r, "/matrix/column holds %d, which is no column of part %lld: damaged",
                          (int)p->column[k], (long long)p->part);
    if (!isfinite(p->value[k])) return plancc__fail(r, "/matrix/value is not finite: damaged");
  }
  for (int64_t k = 0; k < p->num_rows; k++)
    if (p->global_id[k] < 0 || p->global_id[k] >= p->num_vertices)
      return plancc__fail(r, "/rows/global_id holds %d, which is no vertex: damaged",
                          (int)p->global_id[k]);
  for (int64_t k = 0; k < p->num_sends; k++)
    for (int64_t e = p->send_ptr[k]; e < p->send_ptr[k + 1]; e++)
      if (p->send_row[e] < 0 || p->send_row[e] >= p->num_rows ||
          (e > p->send_ptr[k] && p->send_row[e] <= p->send_row[e - 1]))
        return plancc__fail(r, "/expand/send_row holds %d, out of order or no row of part %lld",
                            (int)p->send_row[e], (long long)p->part);
  return 0;
}

static int plancc__read(plancc__reader *r, plancc_part *p) {
  char text[128], *rest;
  int64_t *range = NULL, before, volume, *interior = NULL;
  if (plancc__text(r, "format", text, sizeof text)) return 1;
  if (strcmp(text, "plancc-plan")) return plancc__fail(r, "not a plan of plancc");
  if (plancc__text(r, "format_version", text, sizeof text)) return 1;
  if (strncmp(text, "1.", 2) || text[2] < '1' || text[2] > '9' || strtol(text + 2, &rest, 10) < 5 ||
      *rest)
    return plancc__fail(r, "plan format %s, and this reader knows 1.x from 1.5 on", text);
  if (H5Aexists(r->file, "pieces") > 0)
    return plancc__fail(r, "a plan in pieces, which plancc 0.1.0 was the last version to read: "
                           "compile the graph again");
  if (plancc__text(r, "layout", text, sizeof text)) return 1;
  if (strcmp(text, "row"))
    return plancc__fail(r, "layout '%s': this reader knows plans of layout 'row' only", text);
  if (plancc__integer(r, "num_vertices", 1, INT32_MAX, &p->num_vertices) ||
      plancc__integer(r, "num_nonzeros", 0, INT64_MAX - 1, &p->num_nonzeros_total) ||
      plancc__integer(r, "num_parts", 1, p->num_vertices, &p->num_parts))
    return 1;
  int64_t n = p->num_vertices, m = p->part;
  if (m < 0 || m >= p->num_parts)
    return plancc__fail(r, "there is no part %lld: the plan has parts 0..%lld", (long long)m,
                        (long long)p->num_parts - 1);
  r->part = m;
  r->num_parts = p->num_parts;
  if (plancc__offsets(r, "rows/part_ptr", p->num_parts + 1, m, m + 1, n, &range)) {
    free(range);
    return 1;
  }
  p->first_row = range[0];
  p->num_rows = range[1] - range[0];
  free(range);
  if (plancc__slice(r, "rows/num_interior", H5T_NATIVE_INT64, p->num_parts, m, 1, &interior))
    return 1;
  p->num_interior = interior[0];
  free(interior);
  if (p->num_interior < 0 || p->num_interior > p->num_rows)
    return plancc__fail(r, "/rows/num_interior is out of range: damaged");
  if (plancc__slice(r, "rows/global_id", H5T_NATIVE_INT32, n, p->first_row, p->num_rows,
                    &p->global_id))
    return 1;
  if (plancc__has_numbers(r, "rows/original_id") &&
      plancc__slice(r, "rows/original_id", H5T_NATIVE_INT64, n, p->first_row, p->num_rows,
                    &p->original_id))
    return 1;
  if (plancc__offsets(r, "matrix/row_ptr", n + 1, p->first_row, p->first_row + p->num_rows,
                      p->num_nonzeros_total, &p->row_ptr))
    return 1;
  before = p->row_ptr[0];
  for (int64_t k = 0; k <= p->num_rows; k++) p->row_ptr[k] -= before;
  p->num_nonzeros = p->row_ptr[p->num_rows];
  if (plancc__slice(r, "matrix/column", H5T_NATIVE_INT32, p->num_nonzeros_total, before,
                    p->num_nonzeros, &p->column) ||
      plancc__slice(r, "matrix/value", H5T_NATIVE_DOUBLE, p->num_nonzeros_total, before,
                    p->num_nonzeros, &p->value) ||
      plancc__messages(r, "send", p, &p->num_sends, &p->send_peer, &p->send_ptr, &before,
                       &volume) ||
      plancc__slice(r, "expand/send_row", H5T_NATIVE_INT32, volume, before,
                    p->send_ptr[p->num_sends], &p->send_row) ||
      plancc__messages(r, "recv", p, &p->num_recvs, &p->recv_peer, &p->recv_ptr, &before,
                       &volume))
    return 1;
  p->num_halo = p->recv_ptr[p->num_recvs];
  if (p->num_halo > n - p->num_rows)
    return plancc__fail(r, "part %lld receives more rows than there are: damaged", (long long)m);
  return plancc__check_matrix(r, p);
}

void plancc_free_part(plancc_part *p) {
  free(p->global_id);
  free(p->original_id);
  free(p->row_ptr);
  free(p->column);
  free(p->value);
  free(p->send_peer);
  free(p->send_ptr);
  free(p->send_row);
  free(p->recv_peer);
  free(p->recv_ptr);
  memset(p, 0, sizeof *p);
}

int plancc_read_part(const char *path, int64_t part, plancc_part *out, char *message,
                     size_t message_size) {
  plancc__reader r = {path, -1, 0, 0, message, message_size};
  H5E_auto2_t report;
  void *client;
  memset(out, 0, sizeof *out);
  out->part = part;
  if (message && message_size) message[0] = '\0';
  H5Eget_auto2(H5E_DEFAULT, &report, &client);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
#if H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0))
  H5Pset_file_locking(access, 0, 1); /* many ranks open the file at once */
#endif
  r.file = H5Fopen(path, H5F_ACC_RDONLY, access);
  H5Pclose(access);
  int wrong = r.file < 0 ? plancc__fail(&r, "missing, unreadable, or no HDF5 file")
                         : plancc__read(&r, out);
  if (r.file >= 0) H5Fclose(r.file);
  H5Eset_auto2(H5E_DEFAULT, report, client);
  if (wrong) plancc_free_part(out);
  return wrong;
}

#ifdef PLANCC_MPI
/* After an error, cancel the receives, so that no message arrives in the halo later. Returns whether
   no send is under way. */
static int plancc__withdraw(const plancc_part *p, MPI_Request *request) {
  int64_t calls = p->num_recvs + p->num_sends;
  int idle = 1;
  for (int64_t k = 0; k < p->num_recvs; k++)
    if (request[k] != MPI_REQUEST_NULL) MPI_Cancel(&request[k]);
  MPI_Waitall((int)p->num_recvs, request, MPI_STATUSES_IGNORE);
  for (int64_t k = p->num_recvs; k < calls; k++)
    if (request[k] != MPI_REQUEST_NULL) {
      MPI_Request_free(&request[k]); /* MPI_Wait might never return */
      idle = 0;
    }
  return idle;
}

int plancc_exchange(const plancc_part *p, int width, const double *own, double *halo,
                    MPI_Comm comm, char *message, size_t message_size) {
  plancc__reader r = {"plancc_exchange", -1, 0, 0, message, message_size};
  int size, rank, wrong;
  if (message && message_size) message[0] = '\0';
  if (MPI_Comm_size(comm, &size) || MPI_Comm_rank(comm, &rank))
    return plancc__fail(&r, "MPI failed: no valid communicator");
  if (size != p->num_parts || rank != p->part)
    return plancc__fail(&r, "rank %d of %d has part %lld of %lld: start one rank per part", rank,
                        size, (long long)p->part, (long long)p->num_parts);
  if (width < 1) return plancc__fail(&r, "width %d: rows have at least one column", width);
  size_t rows = (size_t)p->send_ptr[p->num_sends], wide = (size_t)width;
  int64_t calls = p->num_sends + p->num_recvs;
  double *buffer = rows < SIZE_MAX / sizeof(double) / wide
                       ? malloc((rows * wide + 1) * sizeof(double))
                       : NULL;
  MPI_Request *request = malloc(((size_t)calls + 1) * sizeof *request);
  MPI_Datatype row = MPI_DATATYPE_NULL;
  if (!buffer || !request) {
    free(buffer);
    free(request);
    return plancc__fail(&r, "not enough memory for %lld rows to send", (long long)rows);
  }
  for (int64_t k = 0; k < calls; k++) request[k] = MPI_REQUEST_NULL;
  wrong = MPI_Type_contiguous(width, MPI_DOUBLE, &row) || MPI_Type_commit(&row);
  for (int64_t k = 0; k < p->num_recvs && !wrong; k++)
    wrong = MPI_Irecv(halo + (size_t)p->recv_ptr[k] * wide,
                      (int)(p->recv_ptr[k + 1] - p->recv_ptr[k]), row, p->recv_peer[k],
                      PLANCC_TAG, comm, &request[k]);
  for (int64_t k = 0; k < p->num_sends && !wrong; k++) {
    double *mine = buffer + (size_t)p->send_ptr[k] * wide;
    for (int64_t e = p->send_ptr[k]; e < p->send_ptr[k + 1]; e++)
      memcpy(buffer + (size_t)e * wide, own + (size_t)p->send_row[e] * wide,
             wide * sizeof(double));
    wrong = MPI_Isend(mine, (int)(p->send_ptr[k + 1] - p->send_ptr[k]), row, p->send_peer[k],
                      PLANCC_TAG, comm, &request[p->num_recvs + k]);
  }
  wrong = wrong || MPI_Waitall((int)calls, request, MPI_STATUSES_IGNORE);
  /* After an error, a send may still read the buffer: then it is not freed. */
  if (!wrong || plancc__withdraw(p, request)) free(buffer);
  if (row != MPI_DATATYPE_NULL) MPI_Type_free(&row);
  free(request);
  return wrong ? plancc__fail(&r, "MPI failed: call MPI_Abort") : 0;
}

int plancc_exchange_f(const plancc_part *p, int width, const double *own, double *halo,
                      MPI_Fint comm, char *message, size_t message_size) {
  return plancc_exchange(p, width, own, halo, MPI_Comm_f2c(comm), message, message_size);
}
#endif
#endif /* PLANCC_IMPLEMENTATION */
