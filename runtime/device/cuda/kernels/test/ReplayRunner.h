// Runs launches of the replay image on the calling thread, for kernel tests without a driver.
#ifndef PSRT_DEVICE_CUDA_KERNELS_TEST_REPLAYRUNNER_H
#define PSRT_DEVICE_CUDA_KERNELS_TEST_REPLAYRUNNER_H

#include "runtime/device/cuda/kernels/Launches.h"

namespace psrt::cuda {

/// Runs the blocks of each launch one after another, with the threads of a block as fibers. Throws
/// std::runtime_error if a kernel is unknown, if the arguments have the wrong size, or if some
/// threads can never leave a barrier, because others have ended or wait at another barrier.
void runReplay(const Launches &launches);

} // namespace psrt::cuda

#endif
