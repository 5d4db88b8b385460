// Defines `psrt_replay_hooks`, through which the kernels of a replay image call the fake driver
// (runtime/device/cuda/Replay.h).
#include "runtime/device/cuda/kernels/Kernel.h"

extern "C" {
const PsrtReplayHooks *psrt_replay_hooks = nullptr;
}
