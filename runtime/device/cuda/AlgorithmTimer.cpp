// Times enqueued work with CUDA events.
#include "runtime/device/cuda/AlgorithmTimer.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/Workspace.h"
#include <algorithm>
#include <limits>

namespace psrt::cuda {

/// The byte with which memory is filled before a measurement. Elements of 0x3c bytes are about 0.01
/// in f32 and bf16, and about 1 in f16. Zeros would be unrealistic, because GPUs process zeros
/// faster than training data.
static constexpr unsigned char kFilling = 0x3c;

static std::unique_ptr<DeviceMemory> tryToAllocate(const GpuRef &gpu, size_t bytes) {
  try {
    return std::make_unique<DeviceMemory>(gpu, bytes, "measuring matmuls");
  } catch (const Error &) { // callers skip the measurement
    return nullptr;
  }
}

AlgorithmTimer::AlgorithmTimer(const GpuRef &given, const std::vector<size_t> &sizes)
    : gpu(given), stream(given) {
  size_t bytes = 0;
  auto reserve = [&](size_t size) {
    offsets.push_back(bytes);
    bytes += (size + 255) / 256 * 256;
  };
  for (size_t size : sizes)
    reserve(size);
  reserve(kWorkspaceBytes);
  memory = tryToAllocate(gpu, bytes);
  if (memory)
    gpu->check(gpu->getDriver().memsetD8Async(memory->get(), kFilling, bytes, stream.get()),
               "to fill memory");
}

AlgorithmTimer::~AlgorithmTimer() {
  gpu->tryToEnter();
  gpu->getDriver().streamSynchronize(stream.get());
}

BurstTimer::BurstTimer(const Stream &stream, CUdeviceptr filler, int fillings)
    : stream(stream), filler(filler), fillings(fillings), begin(stream.getGpu(), /*timed=*/true),
      end(stream.getGpu(), /*timed=*/true) {}

double BurstTimer::measureBurst(const std::function<bool()> &enqueue, int repeats) const {
  const Gpu &gpu = *stream.getGpu();
  for (int i = 0; i < fillings; ++i)
    gpu.check(gpu.getDriver().memsetD8Async(filler, kFilling, kWorkspaceBytes, stream.get()),
              "to fill memory");
  begin.record(stream);
  for (int i = 0; i < repeats; ++i)
    if (!enqueue())
      return std::numeric_limits<double>::infinity();
  end.record(stream);
  stream.synchronize();
  float milliseconds = 0;
  gpu.check(gpu.getDriver().eventElapsedTime(&milliseconds, begin.get(), end.get()),
            "to measure elapsed time");
  return milliseconds / repeats;
}

double BurstTimer::measure(const std::function<bool()> &enqueue) const {
  constexpr double kBurstMilliseconds = 1;
  constexpr int kMaxRepeats = 10;
  double first = measureBurst(enqueue, 1); // the first run of a kernel also loads the kernel
  if (first == std::numeric_limits<double>::infinity())
    return first;
  int repeats = int(std::clamp(kBurstMilliseconds / std::max(first, 1e-3), 1.0, //
                               double(kMaxRepeats)));
  return std::min(measureBurst(enqueue, repeats), measureBurst(enqueue, repeats));
}

} // namespace psrt::cuda
