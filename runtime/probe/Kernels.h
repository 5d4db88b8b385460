// Declares the kernels of the probe's program for CPUs. The kernels access memory in the same way
// as generated kernels.
#ifndef PSRT_PROBE_KERNELS_H
#define PSRT_PROBE_KERNELS_H

#include "runtime/core/Program.h"

namespace psrt {

/// Indices of the kernels in the program's JSON table.
enum ProbeKernel { AddKernel, NormalizeKernel, EmptyKernel };
inline constexpr const char *kProbeKernelNames[] = {"add", "normalize", "empty"};
/// Number of elements in a row of the kernels.
inline constexpr int64_t kProbeRow = 1024;

/// The kernels, in the order of ProbeKernel.
extern const Kernel probeKernels[];

} // namespace psrt

#endif
