// What the coordinates of a pipeline give to one another under evaluation.
#ifndef PARASHARD_LIB_EVALUATE_EXCHANGE_H
#define PARASHARD_LIB_EVALUATE_EXCHANGE_H

#include "lib/Evaluate/Layout.h"
#include <deque>
#include <map>

namespace parashard {

/// Queues of messages, and reductions in which several coordinates take part. Values are those of
/// the ranks of one coordinate; the others' ranks with equal places are their peers.
class Exchange {
public:
  void send(const std::string &queue, PerRank value) { sent[queue].push_back(std::move(value)); }
  /// The place in a queue of what a receiver asks for next.
  size_t ask(const std::string &queue) { return asked[queue]++; }
  /// What was sent at a place of a queue; null while it was not.
  const PerRank *find(const std::string &queue, size_t place) const {
    auto known = sent.find(queue);
    return known == sent.end() || place >= known->second.size() ? nullptr : &known->second[place];
  }

  /// A reduction among `members`, as one of them enters it: the number of its reductions with them.
  size_t enter(llvm::ArrayRef<int64_t> members, int64_t coordinate, std::vector<PerRank> operands);
  /// The results of one, once all members have entered; nothing before.
  std::optional<std::vector<PerRank>> getReduced(llvm::ArrayRef<int64_t> members, size_t number,
                                                 ps::ReductionKind kind) const;

private:
  using Members = std::vector<int64_t>;
  std::map<std::string, std::deque<PerRank>> sent;
  std::map<std::string, size_t> asked;
  std::map<std::pair<Members, int64_t>, std::vector<std::vector<PerRank>>> entered;
};

} // namespace parashard

#endif
