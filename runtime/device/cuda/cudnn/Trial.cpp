// Random tensors, and what may differ.
#include "runtime/device/cuda/cudnn/Trial.h"
#include "runtime/core/Element.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <random>

namespace psrt::cuda {
namespace {

/// Random numbers repeat after so many, a prime number: drawing is slower than a GPU.
constexpr int64_t kPeriod = 1048573;
/// Of larger results, pieces are compared: this many, of this many elements.
constexpr int64_t kPieces = 64, kPiece = 1 << 18;

/// How far two results may be apart, as a part of them.
double getRounding(Dtype dtype) {
  return dtype == Dtype::BF16 ? 0x1p-7 : dtype == Dtype::F16 ? 0x1p-10 : 1e-6;
}

/// Device tensors of a trial.
class Buffers {
public:
  Buffers(const StreamRef &stream, const Trial &trial) : stream(*stream) {
    const GpuRef &gpu = stream->getGpu();
    for (const Trial::Tensor &tensor : trial.tensors)
      memory.emplace_back(gpu, size_t(tensor.count * dtypeSize(tensor.dtype)), "a comparison");
    const Trial::Tensor &result = trial.tensors[trial.result];
    memory.emplace_back(gpu, size_t(result.count * dtypeSize(result.dtype)), "a comparison");
    for (int i = 0; i < int(trial.tensors.size()); ++i)
      if (i != trial.result)
        fill(memory[i].get(), trial.tensors[i], i);
    for (DeviceMemory *each : {&memory[trial.result], &memory.back()}) // NaNs
      gpu->check(
          gpu->getDriver().memsetD8Async(each->get(), 0xff, each->size(), this->stream.get()),
          "to fill memory");
  }

  /// With the second result where `isSecond`.
  std::vector<void *> get(int result, bool isSecond) const {
    std::vector<void *> pointers;
    for (size_t i = 0; i + 1 < memory.size(); ++i)
      pointers.push_back(reinterpret_cast<void *>(memory[i].get()));
    if (isSecond)
      pointers[result] = reinterpret_cast<void *>(memory.back().get());
    return pointers;
  }

private:
  /// Numbers from -1 to 1: a piece of them from the host, then copies that double.
  void fill(CUdeviceptr to, const Trial::Tensor &tensor, int seed) const {
    int64_t size = dtypeSize(tensor.dtype), drawn = std::min(tensor.count, kPeriod);
    std::vector<char> values(size_t(drawn * size));
    std::mt19937 random(unsigned(seed) + 1);
    for (int64_t i = 0; i < drawn; ++i)
      storeElement(&values[size_t(i * size)], tensor.dtype,
                   double(int32_t(uint32_t(random()))) * 0x1p-31);
    const Driver &driver = stream.getGpu()->getDriver();
    stream.getGpu()->check(driver.memcpyHtoDAsync(to, values.data(), values.size(), stream.get()),
                           "to copy random numbers");
    for (int64_t done = drawn; done < tensor.count; done *= 2)
      stream.getGpu()->check(
          driver.memcpyDtoDAsync(to + CUdeviceptr(done * size), to,
                                 size_t(std::min(done, tensor.count - done) * size), stream.get()),
          "to copy random numbers");
    stream.synchronize(); // the host's values end here
  }

  const Stream &stream;
  std::deque<DeviceMemory> memory;
};

std::vector<char> download(const Stream &stream, const void *from, int64_t bytes) {
  std::vector<char> values(static_cast<size_t>(bytes));
  stream.getGpu()->check(
      stream.getGpu()->getDriver().memcpyDtoHAsync(
          values.data(), reinterpret_cast<CUdeviceptr>(from), values.size(), stream.get()),
      "to copy results");
  stream.synchronize();
  return values;
}

} // namespace

int64_t Trial::getBytes() const {
  int64_t bytes = tensors[result].count * dtypeSize(tensors[result].dtype);
  for (const Tensor &tensor : tensors)
    bytes += tensor.count * dtypeSize(tensor.dtype);
  return bytes;
}

std::string Trial::compare(const StreamRef &stream) const {
  Buffers buffers(stream, *this);
  std::vector<void *> first = buffers.get(result, false), second = buffers.get(result, true);
  theirs(first.data());
  ours(second.data());
  const Tensor &tensor = tensors[result];
  int64_t size = dtypeSize(tensor.dtype), count = tensor.count;
  double relative = getRounding(tensor.dtype);
  double absolute = (roundsInputs ? 5e-3 : 1e-4) * std::sqrt(std::max(terms, 1.0));
  int64_t pieces = count <= kPieces * kPiece ? (count + kPiece - 1) / kPiece : kPieces;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    int64_t length = std::min(kPiece, count);
    int64_t at = pieces == 1 ? 0 : (count - length) / (pieces - 1) * piece;
    if (piece == pieces - 1)
      at = count - length;
    auto load = [&](const std::vector<void *> &from) {
      return download(*stream, static_cast<const char *>(from[result]) + at * size, length * size);
    };
    std::vector<char> theirValues = load(first), ourValues = load(second);
    for (int64_t i = 0; i < length; ++i) {
      double a = loadFloat(&theirValues[size_t(i * size)], tensor.dtype);
      double b = loadFloat(&ourValues[size_t(i * size)], tensor.dtype);
      if (!(std::fabs(a - b) <= absolute + relative * std::max(std::fabs(a), std::fabs(b))))
        return format("element %lld is %.9g, and %.9g by the runtime's kernels",
                      (long long)(at + i), a, b);
    }
  }
  return "";
}

bool Verdicts::isTrusted(int gpu, const std::string &problem,
                         const std::function<std::string()> &test) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = known.find({gpu, problem});
  if (found != known.end())
    return found->second;
  std::string reason = test();
  if (!reason.empty())
    std::fprintf(stderr, "note: cuDNN does not compute this, the runtime's kernels do: %s: %s\n",
                 problem.c_str(), reason.c_str());
  return known[{gpu, problem}] = reason.empty();
}

} // namespace psrt::cuda
