// Which rank writes which part of which tensor to a checkpoint: each element once.
#ifndef PSRT_SESSION_SHARDS_H
#define PSRT_SESSION_SHARDS_H

#include "runtime/session/NamedTensors.h"

namespace psrt {

/// Indices [begin, end) of a dim.
struct IndexRange {
  int64_t begin = 0, end = 0;
};
/// By dim, in ascending order: the elements of a tensor whose index is in a range of each dim.
using IndexRanges = std::vector<std::vector<IndexRange>>;
/// How many indices of each dim: the shape of what the ranges select.
std::vector<int64_t> shapeOf(const IndexRanges &ranges);

/// What one rank writes of one variable.
struct Shard {
  const NamedTensor *tensor = nullptr;
  int variable = 0;
  std::string key;    ///< its name in the rank's file
  IndexRanges ranges; ///< in the whole tensor
  /// Of a variable that is a sum over ranks: it is collected first, and the first rank writes it.
  bool isCollected = false;
};

/// The shards of each rank, the same in every process. Of ranks that hold the same the one writes
/// that has the least to write so far.
std::vector<std::vector<Shard>> planShards(const Program &program,
                                           const std::vector<const NamedTensor *> &tensors);

/// Copies a rank's share of a variable, row-major and without padding.
void copyShard(const Program &program, const Rank &rank, const Variable &variable, char *to);

} // namespace psrt

#endif
