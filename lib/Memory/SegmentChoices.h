// What can be kept of one segment's forward, and what the rest costs to make again.
#ifndef PARASHARD_LIB_MEMORY_SEGMENTCHOICES_H
#define PARASHARD_LIB_MEMORY_SEGMENTCHOICES_H

#include <cstdint>
#include <vector>

namespace parashard {

/// The forward ops of a segment, each behind those whose values it uses.
struct SegmentGraph {
  struct Op {
    int64_t cost = 0; ///< of running it again
    bool mayRun = true;
    std::vector<int> operands, results; ///< values
    bool operator==(const Op &) const = default;
    auto operator<=>(const Op &) const = default;
  };
  struct Value {
    int64_t bytes = 0;   ///< of keeping it; 0 for what is there anyway
    int producer = -1;   ///< an op; -1: it comes from elsewhere
    bool isUsed = false; ///< by backward
    auto operator<=>(const Value &) const = default;
  };
  std::vector<Op> ops;
  std::vector<Value> values;
  auto operator<=>(const SegmentGraph &) const = default;
};

/// Which ops run again: then each value that backward or such an op uses is made by one of them, or
/// is kept.
struct SegmentChoice {
  int64_t bytes = 0;      ///< kept
  int64_t cost = 0;       ///< of what runs again
  std::vector<char> runs; ///< by op
};

/// The choice where those of `may` run that something needs.
SegmentChoice evaluateChoice(const SegmentGraph &graph, const std::vector<char> &may);

/// Choices of which none has both more bytes and more cost than another: the fewest bytes first,
/// at the end the one where nothing runs again. With up to 12 ops that may run again these are all.
/// With more, they are those that are best for some price of a byte (a minimum cut each; Jain et
/// al., Checkmate, arXiv 1910.02653, treat the general problem), and what one or two steps beside
/// the best ones find: an op that runs no more, or one that does, with what it needs.
std::vector<SegmentChoice> findChoices(const SegmentGraph &graph);

} // namespace parashard

#endif
