/* How a program carries weights behind its last section: what the compiler writes and the runtime
 * reads. */
#ifndef PSRT_PAYLOAD_H
#define PSRT_PAYLOAD_H

#include <stdint.h>

#define PSRT_PAYLOAD_MAGIC "psrt weights 1\n"
#define PSRT_PAYLOAD_ALIGNMENT 64

/** The last bytes of a file that carries weights. */
typedef struct psrt_payload_end {
  char magic[16];
  uint64_t begin; /**< of the payload, in bytes from the file's begin */
  uint64_t size;  /**< of the payload, which these bytes follow */
} psrt_payload_end;

#endif
