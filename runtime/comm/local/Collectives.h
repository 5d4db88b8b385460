// The arithmetic and copies of collectives, the same for every backend of the processor.
#ifndef PSRT_COMM_LOCAL_COLLECTIVES_H
#define PSRT_COMM_LOCAL_COLLECTIVES_H

#include "runtime/core/Program.h"

namespace psrt {

/// Combines element lo..hi of every `ins[s]`, s ascending (16-bit floats in f32), and writes it to
/// every `outs[t]`. An element is read from all before it is written to any, so an out may be an
/// in.
void reduceRange(CollectiveOp::Reduction reduction, Dtype dtype, const void *const *ins,
                 int inCount, void *const *outs, int outCount, int64_t lo, int64_t hi);

/// Fails on a collective that no backend runs; `comm` names the one that was to.
void checkCollective(const CollectiveOp &op, const char *comm);

/// A part of a row-major tensor of `shape`, cut in `parts` along `split`, and its place among
/// `places` of them along `concat` of another.
struct PartCopy {
  std::vector<int64_t> shape;
  int64_t element = 1; ///< bytes
  int split = 0, parts = 1, part = 0;
  int concat = 0, places = 1, place = 0;

  void run(const char *in, char *out) const;
  /// Calls copy(inOffset, outOffset, bytes) for every row.
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
    outUnit *= size[d] * (d == concat ? places : 1);
  }
  int64_t in = part * size[split] * inStride[split];
  int64_t out = place * size[concat] * outStride[concat];
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

/// This member's part of a whole tensor, filled up with zeros.
void sliceShard(const CollectiveOp &op, int member, const char *in, char *out);

/// Who sends to `member` in a permute; fails when its targets are no permutation.
int permuteSource(const CollectiveOp &op, int member, int members);

} // namespace psrt

#endif
