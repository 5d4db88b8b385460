// Enqueues collectives as NCCL calls. NCCL requires each member's part to be contiguous. If the
// parts are not contiguous, kernels of the runtime pack them before the call and unpack them after
// the call.
#include "runtime/device/cuda/nccl/Collectives.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/Accesses.h"
#include <numeric>

namespace psrt::nccl {

using cuda::Access;
using cuda::CUdeviceptr;

namespace {

CUdeviceptr addressOf(const void *pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
char *pointerTo(CUdeviceptr address) { return reinterpret_cast<char *>(address); }

ncclDataType_t typeOf(Dtype dtype) {
  switch (dtype) {
  case Dtype::F32:
    return ncclFloat32;
  case Dtype::F64:
    return ncclFloat64;
  case Dtype::F16:
    return ncclFloat16;
  case Dtype::BF16:
    return ncclBfloat16;
  case Dtype::I64:
    return ncclInt64;
  case Dtype::I32:
    return ncclInt32;
  case Dtype::I8:
    return ncclInt8;
  case Dtype::U8:
  case Dtype::Bool:
    return ncclUint8;
  case Dtype::I16:
  case Dtype::F8E4M3: // 8-bit floats are copied as bytes, but never reduced
  case Dtype::F8E5M2:
    break;
  }
  PSRT_FAIL(BadInput, "NCCL cannot reduce %s; use another integer dtype in the model",
            dtypeName(dtype));
}

ncclRedOp_t reductionOf(const CollectiveOp &op) {
  switch (op.reduction) {
  case CollectiveOp::Sum:
    return ncclSum;
  case CollectiveOp::Max:
    return ncclMax;
  case CollectiveOp::Min:
    return ncclMin;
  }
  return ncclSum;
}

bool isReduction(const CollectiveOp &op) {
  return op.kind == CollectiveOp::AllReduce || op.kind == CollectiveOp::ReduceScatter;
}

int64_t product(const std::vector<int64_t> &sizes, size_t from, size_t to) {
  return std::accumulate(sizes.begin() + int64_t(from), sizes.begin() + int64_t(to), int64_t(1),
                         std::multiplies<>());
}

/// Returns the ShardSlice op that splits `dim` of `shape` into `count` parts.
CollectiveOp sliceOf(const std::vector<int64_t> &shape, int dim, int count, Dtype dtype) {
  CollectiveOp op;
  op.kind = CollectiveOp::ShardSlice;
  op.dtype = dtype;
  op.outer = product(shape, 0, size_t(dim));
  op.size = shape[size_t(dim)] / count;
  op.whole = shape[size_t(dim)];
  op.inner = product(shape, size_t(dim) + 1, shape.size());
  return op;
}

/// Enqueues one operation into its CommStream.
class Enqueuer {
public:
  Enqueuer(const NcclOp &op, const Bound &bound, cuda::CudaRank &device)
      : o(op), bound(bound), device(device), stream(op.commStream->getStream()) {}

  void run() {
    if (o.message)
      return message();
    if (o.count == 1)
      return copyOnly();
    switch (o.op.kind) {
    case CollectiveOp::AllReduce:
      return allReduce();
    case CollectiveOp::ReduceScatter:
      return reduceScatter();
    case CollectiveOp::AllGather:
      return allGather();
    case CollectiveOp::AllToAll:
      return allToAll();
    case CollectiveOp::Permute:
      return permute();
    case CollectiveOp::ShardSlice: // the device runs shard slices
      return;
    }
  }

private:
  void call(ncclResult_t result) const {
    o.group->getLibrary().check(result, o.group->get(), "to start a collective");
  }
  const Nccl &nccl() const { return o.group->getLibrary(); }
  /// Runs `calls` as one NCCL group. Also ends the group if a call fails, because no later
  /// operation of this thread would start in an open group.
  template <typename Calls> void inGroup(Calls calls) const {
    call(nccl().groupStart());
    try {
      calls();
    } catch (...) {
      nccl().groupEnd();
      throw;
    }
    call(nccl().groupEnd());
    o.group->settle("to start a collective");
  }

  char *buffer(size_t i) const { return static_cast<char *>(bound.buffers[i]); }
  char *scratch(int64_t offset = 0) const { return pointerTo(o.commStream->getScratch()) + offset; }

  void copy(char *to, const char *from, int64_t bytes) const {
    if (bytes > 0 && to != from)
      device.getGpu().check(device.getDriver().memcpyDtoDAsync(addressOf(to), addressOf(from),
                                                               size_t(bytes), stream.get()),
                            "to copy within the GPU");
  }

  void launch(const cuda::Launches &launches, const char *in, int64_t inBytes, const char *out,
              int64_t outBytes) const {
    std::vector<Access> accesses;
    if (device.getDriver().isFake())
      accesses = {{addressOf(in), addressOf(in) + CUdeviceptr(inBytes), 0},
                  {addressOf(out), addressOf(out) + CUdeviceptr(outBytes), 1}};
    device.getLibrary().launch(stream, launches, accesses);
  }

  /// Splits `in` along a dim into one part per member, and copies the parts to `out`, one after the
  /// other. Example: for two members along dim 1, [[0 1 2 3] [4 5 6 7]] becomes
  /// 0 1 4 5 2 3 6 7.
  void pack(const CollectiveOp &slice, const char *in, char *out, int64_t partBytes) const {
    for (int member = 0; member < o.count; ++member) {
      char *part = out + member * partBytes;
      launch(cuda::launchShardSlice(slice, member, in, part), in, partBytes * o.count, part,
             partBytes);
    }
  }

  /// Copies consecutive parts of `in` to `out`, concatenated along the dim given by `op`. This is
  /// the inverse of pack().
  void unpack(const CollectiveOp &op, const char *in, int64_t partBytes, char *out) const {
    cuda::Pointers parts;
    for (int member = 0; member < o.count; ++member)
      parts.push_back(in + member * partBytes);
    launch(cuda::launchAllGather(op, parts, out), in, partBytes * o.count, out,
           partBytes * o.count);
  }

  bool overlaps(int64_t outBytes) const {
    return buffer(0) < buffer(1) + outBytes && buffer(1) < buffer(0) + o.bytes;
  }

  /// Copies operands to results, for a group of one rank.
  void copyOnly() const {
    size_t pairs = o.op.kind == CollectiveOp::AllReduce ? o.op.counts.size() : 1;
    for (size_t i = 0; i < pairs; ++i)
      copy(buffer(pairs + i), buffer(i),
           o.op.kind == CollectiveOp::AllReduce ? o.op.counts[i] * dtypeSize(o.op.dtype) : o.bytes);
  }

  void allReduce() const {
    inGroup([&] {
      for (size_t i = 0, pairs = o.op.counts.size(); i < pairs; ++i)
        call(nccl().allReduce(buffer(i), buffer(pairs + i), size_t(o.op.counts[i]),
                              typeOf(o.op.dtype), reductionOf(o.op), o.group->get(), stream.get()));
    });
  }

  void reduceScatter() const {
    int64_t count = o.op.outer * o.op.size * o.op.inner, bytes = count * dtypeSize(o.op.dtype);
    const char *in = buffer(0);
    if (o.op.outer > 1 || overlaps(bytes)) {
      CollectiveOp slice = o.op;
      slice.whole = o.op.size * o.count;
      pack(slice, in, scratch(), bytes);
      in = scratch();
    }
    inGroup([&] {
      call(nccl().reduceScatter(in, buffer(1), size_t(count), typeOf(o.op.dtype), reductionOf(o.op),
                                o.group->get(), stream.get()));
    });
  }

  void allGather() const {
    bool isDirect = o.op.outer == 1 && !overlaps(o.bytes * o.count);
    char *out = isDirect ? buffer(1) : scratch();
    inGroup([&] {
      call(nccl().allGather(buffer(0), out, size_t(o.bytes), ncclInt8, o.group->get(),
                            stream.get()));
    });
    if (!isDirect)
      unpack(o.op, scratch(), o.bytes, buffer(1));
  }

  void exchange(const char *from, char *to, int64_t bytes) const {
    inGroup([&] {
      for (int member = 0; member < o.count; ++member) {
        call(nccl().send(from + member * bytes, size_t(bytes), ncclInt8, member, o.group->get(),
                         stream.get()));
        call(nccl().recv(to + member * bytes, size_t(bytes), ncclInt8, member, o.group->get(),
                         stream.get()));
      }
    });
  }

  void allToAll() const {
    int64_t part = o.bytes / o.count;
    pack(sliceOf(o.op.shape, o.op.split, o.count, o.op.dtype), buffer(0), scratch(), part);
    exchange(scratch(), scratch(o.bytes), part);
    std::vector<int64_t> shape = o.op.shape;
    shape[size_t(o.op.split)] /= o.count;
    CollectiveOp gather = sliceOf(shape, o.op.concat, 1, o.op.dtype);
    gather.kind = CollectiveOp::AllGather;
    unpack(gather, scratch(o.bytes), part, buffer(1));
  }

  void permute() const {
    const char *in = buffer(0);
    if (overlaps(o.bytes)) {
      copy(scratch(), in, o.bytes);
      in = scratch();
    }
    inGroup([&] {
      call(nccl().send(in, size_t(o.bytes), ncclInt8, o.op.targets[size_t(o.index)], o.group->get(),
                       stream.get()));
      call(nccl().recv(buffer(1), size_t(o.bytes), ncclInt8, o.source, o.group->get(),
                       stream.get()));
    });
  }

  void message() const {
    inGroup([&] {
      call(o.message->receives ? nccl().recv(buffer(0), size_t(o.bytes), ncclInt8, o.peer,
                                             o.group->get(), stream.get())
                               : nccl().send(buffer(0), size_t(o.bytes), ncclInt8, o.peer,
                                             o.group->get(), stream.get()));
    });
  }

  const NcclOp &o;
  const Bound &bound;
  cuda::CudaRank &device;
  const cuda::Stream &stream;
};

} // namespace

int64_t scratchBytes(const NcclOp &op) {
  if (op.message || op.count == 1)
    return 0;
  switch (op.op.kind) {
  case CollectiveOp::AllToAll:
    return 2 * op.bytes;
  case CollectiveOp::AllGather:
    return op.bytes * op.count;
  case CollectiveOp::ReduceScatter:
  case CollectiveOp::Permute:
    return op.bytes;
  default:
    return 0;
  }
}

void checkSupported(const NcclOp &op) {
  if (!op.message && op.count > 1 && isReduction(op.op))
    typeOf(op.op.dtype);
}

void enqueue(const NcclOp &op, const Bound &bound, cuda::CudaRank &device) {
  Enqueuer(op, bound, device).run();
}

} // namespace psrt::nccl
