// Plans which rank writes which part of each tensor to a checkpoint; each element is written once.
#ifndef PSRT_SESSION_SHARDS_H
#define PSRT_SESSION_SHARDS_H

#include "runtime/session/NamedTensors.h"

namespace psrt {

/// Indices [begin, end) of a dim.
struct IndexRange {
  int64_t begin = 0, end = 0;
};
/// Sorted index ranges of each dim. They select the elements whose indices are in a range of every
/// dim.
using IndexRanges = std::vector<std::vector<IndexRange>>;
/// Returns the number of selected indices of each dim.
std::vector<int64_t> shapeOf(const IndexRanges &ranges);

/// The part of a variable that one rank writes.
struct Shard {
  const NamedTensor *tensor = nullptr;
  int variable = 0;
  std::string key;    ///< name in the rank's file
  IndexRanges ranges; ///< relative to the whole tensor
  /// Whether the variable is a sum over ranks: the sum is collected first, and the first rank
  /// writes it.
  bool isCollected = false;
};

/// Returns the shards of each rank, the same in every process. Among ranks with equal data, the one
/// with the fewest bytes so far writes.
std::vector<std::vector<Shard>> planShards(const Program &program,
                                           const std::vector<const NamedTensor *> &tensors);

/// Copies a rank's share of a variable, row-major and without padding.
void copyShard(const Program &program, const Rank &rank, const Variable &variable, char *to);

} // namespace psrt

#endif
