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
};

/// This member's part of a whole tensor, filled up with zeros.
void sliceShard(const CollectiveOp &op, int member, const char *in, char *out);

/// Who sends to `member` in a permute; fails when its targets are no permutation.
int permuteSource(const CollectiveOp &op, int member, int members);

} // namespace psrt

#endif
