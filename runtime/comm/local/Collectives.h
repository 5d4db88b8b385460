// Implements the arithmetic and the copies of collectives for all CPU backends.
#ifndef PSRT_COMM_LOCAL_COLLECTIVES_H
#define PSRT_COMM_LOCAL_COLLECTIVES_H

#include "runtime/core/Program.h"

namespace psrt {

/// Reduces elements [lo, hi) of all `ins[s]`, in ascending s, and writes the result to every
/// `outs[t]`. 16-bit floats are reduced in f32. Each element is read from all inputs before it is
/// written, so an output may alias an input.
void reduceRange(CollectiveOp::Reduction reduction, Dtype dtype, const void *const *ins,
                 int inCount, void *const *outs, int outCount, int64_t lo, int64_t hi);

/// Fails if the collective exceeds a limit that all backends share, on CPUs and GPUs. Example: an
/// all_to_all of a tensor with 17 dims. `comm` is the name of the backend in the message.
void checkCollective(const CollectiveOp &op, const char *comm);

/// Copies one part of a row-major tensor of `shape` into another tensor. The source is split into
/// `parts` along `split`; the destination consists of `slots` such parts along `concat`. `part` and
/// `slot` are the index of the copied part in the source and in the destination. Example: the
/// all-to-all of [4, 6] over 2 members from dim 0 to dim 1 copies [2, 6] parts into a [2, 12]
/// result.
struct PartCopy {
  std::vector<int64_t> shape;
  int64_t element = 1; ///< bytes of an element
  int split = 0, parts = 1, part = 0;
  int concat = 0, slots = 1, slot = 0;

  void run(const char *in, char *out) const;
  /// Calls copy(inOffset, outOffset, bytes) for every row. Offsets are in bytes.
  template <typename Copy> void forEachRow(Copy &&copy) const;
};

template <typename Copy> void PartCopy::forEachRow(Copy &&copy) const {
  int64_t rank = int64_t(shape.size()), index[16] = {};
  int64_t size[16], inStride[16], outStride[16], inUnit = element, outUnit = element;
  for (int64_t d = rank; d-- > 0;) {
    size[d] = d == split ? shape[d] / parts : shape[d];
    inStride[d] = inUnit;
    outStride[d] = outUnit;
    inUnit *= shape[d];
    outUnit *= size[d] * (d == concat ? slots : 1);
  }
  int64_t in = part * size[split] * inStride[split];
  int64_t out = slot * size[concat] * outStride[concat];
  while (true) {
    int64_t a = in, b = out;
    for (int64_t d = 0; d + 1 < rank; ++d) {
      a += index[d] * inStride[d];
      b += index[d] * outStride[d];
    }
    copy(a, b, size[rank - 1] * element);
    int64_t d = rank - 1;
    while (d > 0 && ++index[d - 1] == size[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

/// Copies the shard of `member` out of a whole tensor. Fills the padding of the shard with zeros.
void sliceShard(const CollectiveOp &op, int member, const char *in, char *out);

/// Returns the member that sends to `member` in a permute. Fails if the targets are not a
/// permutation.
int permuteSource(const CollectiveOp &op, int member, int members);

} // namespace psrt

#endif
