// Reductions among pipeline coordinates.
#include "lib/Evaluate/Exchange.h"
#include "lib/Evaluate/Collectives.h"

using namespace mlir;

namespace parashard {

size_t Exchange::enter(ArrayRef<int64_t> members, int64_t coordinate,
                       std::vector<PerRank> operands) {
  auto &own = entered[{members.vec(), coordinate}];
  own.push_back(std::move(operands));
  return own.size() - 1;
}

std::optional<std::vector<PerRank>> Exchange::getReduced(ArrayRef<int64_t> members, size_t number,
                                                         ps::ReductionKind kind) const {
  std::vector<const std::vector<PerRank> *> given;
  for (int64_t member : members) {
    auto known = entered.find({members.vec(), member});
    if (known == entered.end() || number >= known->second.size())
      return std::nullopt;
    given.push_back(&known->second[number]);
  }
  std::vector<PerRank> results(given.front()->size());
  for (size_t i = 0; i < results.size(); ++i)
    for (size_t rank = 0; rank < given.front()->at(i).size(); ++rank) {
      PerRank terms;
      for (const std::vector<PerRank> *operands : given)
        terms.push_back(operands->at(i)[rank]);
      results[i].push_back(
          reduceGroup(terms, llvm::to_vector(llvm::seq<int64_t>(0, terms.size())), kind));
    }
  return results;
}

} // namespace parashard
