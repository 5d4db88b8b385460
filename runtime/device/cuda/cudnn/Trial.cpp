// Draws random tensors, compares results and measures times.
#include "runtime/device/cuda/cudnn/Trial.h"
#include "runtime/core/Element.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/cudnn/Descriptor.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <random>

namespace psrt::cuda {
namespace {

/// Random elements repeat after this number of elements, which is a prime. Copying the repeated
/// elements on the GPU is faster than drawing all elements on the host.
constexpr int64_t kPeriod = 1048573;
/// Limit on compared elements. In larger results, a subset of the rows is compared.
constexpr int64_t kMaxCompared = int64_t(1) << 24;

/// The device tensors of a trial.
class Buffers {
public:
  Buffers(const StreamRef &stream, const Trial &trial) : stream(*stream), trial(trial) {
    for (const Trial::Tensor &tensor : trial.tensors) {
      first.push_back(allocate(tensor));
      second.push_back(tensor.isResult ? allocate(tensor) : first.back());
    }
    for (size_t i = 0; i < trial.tensors.size(); ++i)
      if (!trial.tensors[i].sizes.empty() && !trial.tensors[i].isResult)
        fill(reinterpret_cast<CUdeviceptr>(first[i]), trial.tensors[i], unsigned(i) + 1);
  }

  void *const *getFirst() const { return first.data(); }
  /// Like getFirst(), but with separate memory for the results.
  void *const *getSecond() const { return second.data(); }

  std::vector<char> download(void *const *from, size_t tensor) const {
    std::vector<char> values(size_t(trial.tensors[tensor].getBytes()));
    check(driver().memcpyDtoHAsync(values.data(), reinterpret_cast<CUdeviceptr>(from[tensor]),
                                   values.size(), stream.get()),
          "to copy results");
    stream.synchronize();
    return values;
  }

private:
  const Driver &driver() const { return stream.getGpu()->getDriver(); }
  void check(CUresult result, const char *action) const { stream.getGpu()->check(result, action); }

  void *allocate(const Trial::Tensor &tensor) {
    if (tensor.sizes.empty())
      return nullptr;
    memory.emplace_back(stream.getGpu(), size_t(tensor.getBytes()), "a comparison");
    CUdeviceptr at = memory.back().get();
    if (tensor.isResult) // fill with NaNs
      check(driver().memsetD8Async(at, 0xff, memory.back().size(), stream.get()), "to fill memory");
    return reinterpret_cast<void *>(at);
  }

  /// Fills a tensor with random numbers that are drawn on the host, and repeats these numbers by
  /// copies whose size doubles each time. Tensors with a `value` function are computed entirely on
  /// the host.
  void fill(CUdeviceptr to, const Trial::Tensor &tensor, unsigned seed) const {
    int64_t size = dtypeSize(tensor.dtype), count = tensor.getExtent();
    int64_t drawn = tensor.value ? count : std::min(count, kPeriod);
    std::vector<char> values(size_t(drawn * size));
    std::mt19937 random(seed);
    for (int64_t i = 0; i < drawn; ++i)
      storeElement(&values[size_t(i * size)], tensor.dtype,
                   tensor.value ? tensor.value(i)
                                : double(int32_t(uint32_t(random()))) * 0x1p-31 * tensor.scale);
    check(driver().memcpyHtoDAsync(to, values.data(), values.size(), stream.get()),
          "to copy random numbers");
    for (int64_t done = drawn; done < count; done *= 2)
      check(driver().memcpyDtoDAsync(to + CUdeviceptr(done * size), to,
                                     size_t(std::min(done, count - done) * size), stream.get()),
            "to copy random numbers");
    stream.synchronize(); // `values` must outlive the copies
  }

  const Stream &stream;
  const Trial &trial;
  std::deque<DeviceMemory> memory;
  std::vector<void *> first, second;
};

/// Calls visit(row, offset) for the compared rows, which include the last one.
template <typename Visit> void forEachRow(const Trial::Tensor &tensor, Visit visit) {
  int64_t rows = 1, width = tensor.sizes.back();
  for (size_t d = 0; d + 1 < tensor.sizes.size(); ++d)
    rows *= tensor.sizes[d];
  int64_t step = std::max<int64_t>(1, rows / std::max<int64_t>(1, kMaxCompared / width));
  for (int64_t row = (rows - 1) % step; row < rows; row += step) {
    int64_t rest = row, at = 0;
    for (size_t d = tensor.sizes.size() - 1; d-- > 0; rest /= tensor.sizes[d])
      at += rest % tensor.sizes[d] * tensor.strides[d];
    visit(row, at);
  }
}

double squareOf(double value) { return std::isfinite(value) ? value * value : 0; }

/// Describes the first element that differs by more than the tolerance. Returns an empty string if
/// there is none.
std::string compareValues(const Trial::Tensor &tensor, const std::vector<char> &theirs,
                          const std::vector<char> &ours) {
  int64_t size = dtypeSize(tensor.dtype), width = tensor.sizes.back(), elements = 0;
  auto load = [&](const std::vector<char> &from, int64_t at) {
    return loadFloat(&from[size_t(at * size)], tensor.dtype);
  };
  double all = 0;
  if (tensor.ofRow > 0)
    forEachRow(tensor, [&](int64_t, int64_t at) {
      elements += width;
      for (int64_t i = 0; i < width; ++i)
        all += squareOf(load(ours, at + i));
    });
  double least = 0.1 * std::sqrt(all / double(std::max<int64_t>(elements, 1)));
  double relative = tensor.roundings * getRounding(tensor.dtype);
  std::string found;
  forEachRow(tensor, [&](int64_t row, int64_t at) {
    double squares = 0;
    for (int64_t i = 0; tensor.ofRow > 0 && i < width; ++i)
      squares += squareOf(load(ours, at + i));
    double allowed =
        tensor.absolute + tensor.ofRow * std::max(std::sqrt(squares / double(width)), least);
    for (int64_t i = 0; found.empty() && i < width; ++i) {
      double a = load(theirs, at + i), b = load(ours, at + i);
      if (a != b &&
          !(std::fabs(a - b) <= allowed + relative * std::max(std::fabs(a), std::fabs(b))))
        found = format("element %lld is %.9g, but %.9g with the fallback kernels",
                       (long long)(row * width + i), a, b);
    }
  });
  return found;
}

} // namespace

double getRounding(Dtype dtype) {
  return dtype == Dtype::BF16 ? 0x1p-7 : dtype == Dtype::F16 ? 0x1p-10 : 1e-6;
}

Trial::Tensor Trial::Tensor::dense(Dtype dtype, std::vector<int64_t> sizes) {
  Tensor result;
  result.dtype = dtype;
  result.strides = getDenseStrides(sizes);
  result.sizes = std::move(sizes);
  return result;
}

int64_t Trial::Tensor::getExtent() const {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d)
    last += (sizes[d] - 1) * strides[d];
  return sizes.empty() ? 0 : last + 1;
}

int64_t Trial::getBytes() const {
  int64_t bytes = 0;
  for (const Tensor &tensor : tensors)
    bytes += tensor.getBytes() * (tensor.isResult ? 2 : 1);
  return bytes;
}

std::string Trial::compare(const StreamRef &stream) const {
  Buffers buffers(stream, *this);
  if (prepare)
    prepare(buffers.getFirst());
  theirs(buffers.getFirst());
  ours(buffers.getSecond());
  std::vector<std::vector<char>> found(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].isResult) {
      found[i] = buffers.download(buffers.getFirst(), i);
      std::string difference =
          compareValues(tensors[i], found[i], buffers.download(buffers.getSecond(), i));
      if (!difference.empty())
        return difference;
    }
  if (mayDiffer)
    return "";
  theirs(buffers.getFirst());
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].isResult && found[i] != buffers.download(buffers.getFirst(), i))
      return "two runs differ; set PSRT_NONDETERMINISTIC=1 to allow this";
  return "";
}

Trial::Times
Trial::measure(const StreamRef &stream,
               const std::function<double(const std::function<void()> &)> &time) const {
  Buffers buffers(stream, *this);
  if (prepare)
    prepare(buffers.getFirst());
  Times result;
  result.theirs = time([&] { theirs(buffers.getFirst()); });
  result.ours = time([&] { ours(buffers.getSecond()); });
  return result;
}

bool TrialResults::isTrusted(int gpu, const std::string &problem,
                             const std::function<std::string()> &test) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = known.find({gpu, problem});
  if (found != known.end())
    return found->second;
  std::string reason = test();
  if (!reason.empty())
    std::fprintf(stderr, "note: fallback kernels are used instead of %s: %s: %s\n", library,
                 problem.c_str(), reason.c_str());
  return known[{gpu, problem}] = reason.empty();
}

} // namespace psrt::cuda
