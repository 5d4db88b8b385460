// The part of a replay image that is not a kernel: the driver's hooks.
#include "runtime/device/cuda/kernels/Kernel.h"

extern "C" {
const PsrtReplayHooks *psrt_replay_hooks = nullptr;
}
