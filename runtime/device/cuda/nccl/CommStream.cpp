// Allocates a CommStream's scratch and tracks its progress.
#include "runtime/device/cuda/nccl/CommStream.h"
#include "runtime/core/Status.h"
#include <cstring>
#include <numeric>

namespace psrt::nccl {

/// Number of operations that positions can distinguish. Higher operation numbers wrap around.
static constexpr int64_t kPositions = 1 << 16;

CommStream::CommStream(std::string name, const cuda::GpuRef &given, const cuda::StreamRef &own)
    : name(std::move(name)), gpu(given),
      stream(own ? own : std::make_shared<const cuda::Stream>(gpu)), ownsStream(!own),
      position(gpu, sizeof(int32_t)) {
  std::memset(position.get(), 0, sizeof(int32_t));
}

void CommStream::reserve() {
  if (scratchBytes > 0 && (scratches.empty() || int64_t(scratches.back().size()) < scratchBytes))
    scratches.emplace_back(gpu, size_t(scratchBytes), "the scratch of collectives");
  if (numbers || texts.empty())
    return;
  std::vector<int32_t> values(kPositions);
  std::iota(values.begin(), values.end(), 1);
  size_t bytes = values.size() * sizeof(int32_t);
  numbers = std::make_unique<cuda::DeviceMemory>(gpu, bytes, "the positions of collectives");
  cuda::PinnedMemory staged(gpu, bytes);
  std::memcpy(staged.get(), values.data(), bytes);
  gpu->check(gpu->getDriver().memcpyHtoDAsync(numbers->get(), staged.get(), bytes, stream->get()),
             "to copy to the GPU");
  stream->synchronize();
}

int64_t CommStream::add(std::string text) {
  texts.push_back(std::move(text));
  return int64_t(texts.size()) - 1;
}

void CommStream::recordPosition(int64_t number) {
  auto offset = cuda::CUdeviceptr(number % kPositions * int64_t(sizeof(int32_t)));
  gpu->check(gpu->getDriver().memcpyDtoHAsync(position.get(), numbers->get() + offset,
                                              sizeof(int32_t), stream->get()),
             "to record a position");
}

static int64_t read(const cuda::PinnedMemory &position) {
  return *reinterpret_cast<const volatile int32_t *>(position.get());
}

bool CommStream::hasMoved() {
  int64_t now = read(position), before = std::exchange(seen, now);
  return now != before;
}

std::string CommStream::describe() const {
  int64_t ended = read(position);
  std::string text = name.empty() ? "the rank's stream" : "queue " + name;
  if (ended == 0)
    return format("in %s, none of %zu operations has completed; the first is %s", text.c_str(),
                  texts.size(), texts.front().c_str());
  const std::string &last = texts[size_t(ended - 1) % texts.size()];
  const std::string &next = texts[size_t(ended) % texts.size()];
  return format("in %s, operation %lld of %zu completed last (%s); the next is %s", text.c_str(),
                (long long)ended, texts.size(), last.c_str(), next.c_str());
}

} // namespace psrt::nccl
