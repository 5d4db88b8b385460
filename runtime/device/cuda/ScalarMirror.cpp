// Uploads scalars to the GPU.
#include "runtime/device/cuda/ScalarMirror.h"
#include <algorithm>
#include <cstring>

namespace psrt::cuda {

static size_t bytesOf(size_t count) { return std::max<size_t>(1, count) * sizeof(int64_t); }

ScalarMirror::ScalarMirror(StreamRef given, size_t count)
    : stream(std::move(given)), memory(stream->getGpu(), bytesOf(count), "scalars"),
      turns{{stream->getGpu(), bytesOf(count)}, {stream->getGpu(), bytesOf(count)}} {}

void ScalarMirror::upload(const int64_t *scalars) {
  const Gpu &gpu = *stream->getGpu();
  Turn &turn = turns[next];
  next = 1 - next;
  if (turn.isCopied)
    turn.over.synchronize();
  std::memcpy(turn.pinned.get(), scalars, memory.size());
  gpu.check(gpu.getDriver().memcpyHtoDAsync(memory.get(), turn.pinned.get(), memory.size(),
                                            stream->get()),
            "to copy scalars to the GPU");
  turn.over.record(*stream);
  turn.isCopied = true;
}

} // namespace psrt::cuda
