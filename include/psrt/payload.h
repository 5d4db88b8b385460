/* Defines how weights are stored at the end of a program's file, after its last ELF section. The
   compiler writes the weights and the runtime reads them. */
#ifndef PSRT_PAYLOAD_H
#define PSRT_PAYLOAD_H

#include <stdint.h>

#define PSRT_PAYLOAD_MAGIC "psrt weights 1\n"
#define PSRT_PAYLOAD_ALIGNMENT 64

/** The last bytes of a file that contains weights. */
typedef struct psrt_payload_end {
  char magic[16];
  uint64_t begin; /**< offset of the payload in bytes, from the start of the file */
  uint64_t size;  /**< size of the payload in bytes; this struct follows the payload */
} psrt_payload_end;

#endif
