// Builds launches of collectives between ranks that can access each other's memory, and of small
// writes.
#include "runtime/core/Status.h"
#include "runtime/device/cuda/kernels/LaunchHelpers.h"
#include "runtime/device/cuda/kernels/Launches.h"

namespace psrt::cuda {
namespace {

std::string withUnit(const char *name, int64_t unit) { return name + std::to_string(unit); }

//===--- reductions -------------------------------------------------------===//

/// Builds the launch of a reduction. `ins` and `outs` are the addresses of elements [0, 0].
KernelLaunch makeReduction(CollectiveOp::Reduction reduction, Dtype dtype, ReduceArguments a,
                           const Pointers &ins, const std::vector<void *> &outs,
                           const uint64_t *pointers) {
  if (!pointers && std::max(ins.size(), outs.size()) > kMaxParts)
    PSRT_FAIL(
        BadInput,
        "a reduction over %zu ranks of one GPU is not supported without pointers in device memory",
        ins.size());
  int64_t size = dtypeSize(dtype);
  int64_t unit = commonUnit({a.row * size, a.inStride * size, a.outStride * size});
  for (const void *in : ins)
    unit = commonUnit({unit, address(in)});
  for (const void *out : outs)
    unit = commonUnit({unit, address(out)});
  a.inCount = int32_t(ins.size()), a.outCount = int32_t(outs.size());
  a.reduction = reduction, a.packed = unit == 16, a.pointers = pointers;
  if (!pointers) {
    std::copy(ins.begin(), ins.end(), a.ins);
    std::copy(outs.begin(), outs.end(), a.outs);
  }
  int64_t threads = a.outer * a.row / (a.packed ? 16 / size : 1);
  const char *name = dtypeName(dtype == Dtype::Bool ? Dtype::U8 : dtype);
  return makeLaunch(std::string("psrt_reduce_") + name, blocksFor(threads, 256), 256, a);
}

//===--- copies -----------------------------------------------------------===//

/// A dim of a copy; sizes and strides are in bytes.
struct Dim {
  int64_t size, inStride, outStride;
};

/// Merges adjacent dims that are contiguous in both input and output. The stride of the last dim is
/// 1 byte. Example: the sizes {2, 3, 4} with the input strides {12, 4, 1} and the output strides
/// {24, 4, 1} become {2, 12}.
std::vector<Dim> joinDims(const std::vector<Dim> &dims) {
  std::vector<Dim> joined;
  for (const Dim &dim : dims) {
    if (!joined.empty() && joined.back().inStride == dim.size * dim.inStride &&
        joined.back().outStride == dim.size * dim.outStride)
      joined.back() = {joined.back().size * dim.size, dim.inStride, dim.outStride};
    else if (dim.size != 1 || dim.inStride == 1)
      joined.push_back(dim);
  }
  return joined;
}

/// Copies part i, whose dims are `whole`, from ins[i] to `out` + i * outPart.
Launches copyParts(const std::vector<Dim> &whole, const Pointers &ins, char *out, int64_t outPart) {
  std::vector<Dim> dims = joinDims(whole);
  if (dims.size() > kCopyDims)
    PSRT_FAIL(Failed, "copies of %zu dims are not supported", dims.size());
  int64_t unit = commonUnit({dims.back().size, outPart, address(out)});
  for (size_t d = 0; d + 1 < dims.size(); ++d)
    unit = commonUnit({unit, dims[d].inStride, dims[d].outStride});
  for (const void *in : ins)
    unit = commonUnit({unit, address(in)});
  CopyArguments a{};
  a.outPart = outPart / unit;
  int64_t count = 1;
  for (int d = 0; d < kCopyDims; ++d) {
    int at = d - kCopyDims + int(dims.size());
    bool isLast = d == kCopyDims - 1;
    a.sizes[d] = at < 0 ? 1 : isLast ? dims[at].size / unit : dims[at].size;
    a.inStrides[d] = at < 0 ? 0 : isLast ? 1 : dims[at].inStride / unit;
    a.outStrides[d] = at < 0 ? 0 : isLast ? 1 : dims[at].outStride / unit;
    count *= a.sizes[d];
  }
  Launches result;
  for (size_t first = 0; first < ins.size(); first += kMaxParts) {
    a.parts = std::min<int64_t>(kMaxParts, ins.size() - first);
    std::copy_n(ins.begin() + first, a.parts, a.ins);
    a.out = out + first * outPart;
    result.push_back(
        makeLaunch(withUnit("psrt_copy_", unit), blocksFor(count * a.parts, 256), 256, a));
  }
  return result;
}

} // namespace

Launches launchZero(void *out, int64_t bytes) {
  return {makeLaunch("psrt_zero", blocksFor(bytes, 256 * 16), 256, ZeroArguments{out, bytes})};
}

Launches launchShardIndex(void *out, int64_t value) {
  return {makeLaunch("psrt_write_index", 1, 32,
                     WriteIndexArguments{static_cast<int64_t *>(out), value})};
}

Launches launchReduce(CollectiveOp::Reduction reduction, Dtype dtype, const Pointers &ins,
                      const std::vector<void *> &outs, int64_t count, const uint64_t *pointers) {
  ReduceArguments a{};
  a.outer = 1, a.row = count;
  return {makeReduction(reduction, dtype, a, ins, outs, pointers)};
}

int64_t getScatterOffset(const CollectiveOp &op, int member) {
  return member * op.size * op.inner * dtypeSize(op.dtype);
}

Launches launchReduceScatter(const CollectiveOp &op, const Pointers &ins, int member, void *out,
                             const uint64_t *pointers) {
  Pointers parts;
  for (const void *in : ins)
    parts.push_back(static_cast<const char *>(in) + getScatterOffset(op, member));
  ReduceArguments a{};
  a.outer = op.outer, a.row = op.size * op.inner;
  a.inStride = a.row * int64_t(ins.size()), a.outStride = a.row;
  return {makeReduction(op.reduction, op.dtype, a, parts, {out}, pointers)};
}

Launches launchAllGather(const CollectiveOp &op, const Pointers &ins, void *out) {
  int64_t row = op.size * op.inner * dtypeSize(op.dtype);
  return copyParts({{op.outer, row, row * int64_t(ins.size())}, {row, 1, 1}}, ins,
                   static_cast<char *>(out), row);
}

Launches launchAllToAll(const CollectiveOp &op, const Pointers &ins, int member, void *out) {
  int64_t rank = op.shape.size(), parts = ins.size(), element = dtypeSize(op.dtype);
  std::vector<Dim> dims(rank);
  int64_t inUnit = element, outUnit = element;
  for (int64_t d = rank; d-- > 0;) {
    dims[d] = {d == op.split ? op.shape[d] / parts : op.shape[d], inUnit, outUnit};
    inUnit *= op.shape[d];
    outUnit *= dims[d].size * (d == op.concat ? parts : 1);
  }
  int64_t from = member * dims[op.split].size * dims[op.split].inStride;
  int64_t outPart = dims[op.concat].size * dims[op.concat].outStride;
  dims.push_back({element, 1, 1});
  Pointers begins;
  for (const void *in : ins)
    begins.push_back(static_cast<const char *>(in) + from);
  return copyParts(dims, begins, static_cast<char *>(out), outPart);
}

Launches launchShardSlice(const CollectiveOp &op, int member, const void *in, void *out) {
  int64_t bytes = op.inner * dtypeSize(op.dtype);
  int64_t first = std::min(op.whole, member * op.size), kept = std::min(op.size, op.whole - first);
  const char *from = static_cast<const char *>(in) + first * bytes;
  int64_t unit =
      commonUnit({kept * bytes, op.size * bytes, op.whole * bytes, address(from), address(out)});
  SliceArguments a{
      from, out, op.outer, op.size * bytes / unit, kept * bytes / unit, op.whole * bytes / unit};
  return {makeLaunch(withUnit("psrt_slice_", unit), blocksFor(a.outer * a.size, 256), 256, a)};
}

} // namespace psrt::cuda
