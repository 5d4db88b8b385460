// Defines the one-rank version of the hand-written program, for `--check`.
#include "runtime/conformance/TinyProgram.h"

extern "C" {
extern const char psrt_check_program_json[] = PSRT_TINY_TABLE("1", "8");
extern const uint64_t psrt_check_program_json_size = sizeof(psrt_check_program_json) - 1;
extern const psrt::Kernel psrt_check_program_kernels[];
}

/// Calls a kernel of the program for 2 ranks, because the kernels do not depend on the mesh. A
/// function is needed, since the addresses of these kernels are only known at load time.
static void call(int kernel, void *const *buffers, const int64_t *scalars, int64_t lo, int64_t hi) {
  psrt_program_kernels[kernel](buffers, scalars, lo, hi);
}
template <int kernel>
static void forwardTo(void *const *buffers, const int64_t *scalars, int64_t lo, int64_t hi) {
  call(kernel, buffers, scalars, lo, hi);
#ifdef PSRT_TINY_WRONG
  if (kernel == 0)
    static_cast<float *>(buffers[3])[1] *= 1.01f;
#endif
}
extern "C" const psrt::Kernel psrt_check_program_kernels[] = {forwardTo<0>, forwardTo<1>,
                                                              forwardTo<2>};
