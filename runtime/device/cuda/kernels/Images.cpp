// Embeds the compiled kernels as bytes in this library.
#include "runtime/device/cuda/kernels/Launches.h"

#define PSRT_IMAGE(NAME, FILE)                                                                     \
  asm(".pushsection .rodata, \"a\"\n"                                                              \
      ".balign 4096\n"                                                                             \
      ".globl " #NAME ", " #NAME "_size\n" #NAME ":\n"                                             \
      ".incbin \"" FILE "\"\n"                                                                     \
      "psrt_end_of_" #NAME ":\n"                                                                   \
      ".byte 0\n"                                                                                  \
      ".balign 8\n" #NAME "_size: .quad psrt_end_of_" #NAME " - " #NAME "\n"                       \
      ".popsection\n")

PSRT_IMAGE(psrt_cuda_kernels_ptx, PSRT_CUDA_PTX);
PSRT_IMAGE(psrt_cuda_kernels_replay, PSRT_CUDA_REPLAY);
