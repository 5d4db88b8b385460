// Defines the replay image's pointer to the driver's hooks.
#include "runtime/device/cuda/kernels/Kernel.h"

extern "C" {
const PsrtReplayHooks *psrt_replay_hooks = nullptr;
}
