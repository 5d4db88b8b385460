// Embeds the replay images (runtime/device/cuda/Replay.h) of the hand-written program
// (TinyProgram.h) and of its one-rank version. A compiled CUDA program embeds its image in the same
// way.
#define PSRT_IMAGE(name, file)                                                                     \
  asm(".pushsection .rodata, \"a\"\n"                                                              \
      ".balign 64\n"                                                                               \
      ".globl " name ", " name "_size\n" name ":\n"                                                \
      ".incbin \"" file "\"\n"                                                                     \
      "end_of_" name ":\n"                                                                         \
      ".byte 0\n"                                                                                  \
      ".balign 8\n" name "_size: .quad end_of_" name " - " name "\n"                               \
      ".popsection\n")

PSRT_IMAGE("psrt_program_image", PSRT_TINY_REPLAY);
#ifdef PSRT_TINY_CHECK_REPLAY
PSRT_IMAGE("psrt_check_program_image", PSRT_TINY_CHECK_REPLAY);
#endif
