// Embeds the replay images of the hand-written program and of its one-rank version, in the same way
// as a compiled CUDA program.
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
