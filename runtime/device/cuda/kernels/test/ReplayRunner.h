// Runs launches of the replay image on the calling thread, for tests of kernels without a driver.
#ifndef PSRT_DEVICE_CUDA_KERNELS_TEST_REPLAYRUNNER_H
#define PSRT_DEVICE_CUDA_KERNELS_TEST_REPLAYRUNNER_H

#include "runtime/device/cuda/kernels/Launches.h"

namespace psrt::cuda {

/// Runs the blocks of each launch one after another, a block's threads as fibers. Throws
/// std::runtime_error on an unknown kernel, on arguments of another size, and where threads wait
/// for others that have ended or wait elsewhere.
void runReplay(const Launches &launches);

} // namespace psrt::cuda

#endif
