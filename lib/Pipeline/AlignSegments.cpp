// Gives the segments of inference entries the numbers of the model's segments, so that a layer is
// in the same pipeline stage in all functions.
#include "lib/IR/Cloneable.h"
#include "lib/IR/Stages.h"
#include "lib/Pipeline/Segments.h"
#include "llvm/ADT/SetVector.h"
#include <map>
#include <set>

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::pipeline {
namespace {

/// The variables that each segment of the forward reads.
using VariablesOfSegments = std::map<int64_t, llvm::SetVector<Attribute>>;

/// Adds the variables from which cloneable ops compute `value`.
void addVariables(Value value, const DenseSet<Operation *> &cloneable,
                  llvm::SetVector<Attribute> &variables) {
  Operation *producer = value.getDefiningOp();
  if (!producer || !cloneable.contains(producer))
    return;
  if (auto read = dyn_cast<ReadOp>(producer))
    variables.insert(read.getVariableAttr());
  for (Value operand : producer->getOperands())
    addVariables(operand, cloneable, variables);
}

VariablesOfSegments findVariables(func::FuncOp function) {
  DenseSet<Operation *> cloneable = findCloneableOps(function);
  VariablesOfSegments result;
  for (Operation &op : function.getBody().front().without_terminator()) {
    std::optional<int64_t> segment = getSegment(&op);
    if (!segment || cloneable.contains(&op) || isBackward(&op))
      continue;
    llvm::SetVector<Attribute> &variables = result[*segment];
    for (Value operand : op.getOperands())
      addVariables(operand, cloneable, variables);
  }
  return result;
}

/// Returns the model's segment for a segment of an entry that reads `variables`. The result is at
/// least `least`. Prefers variables that only one of the model's segments reads. Example: the
/// embedding and the head of a model share a weight; the head of an entry gets the later segment,
/// because its predecessor has a number above that of the embedding.
int64_t findSegment(const llvm::SetVector<Attribute> &variables,
                    const DenseMap<Attribute, std::set<int64_t>> &readers, int64_t least) {
  for (bool isShared : {false, true})
    for (Attribute variable : variables) {
      auto known = readers.find(variable);
      if (known == readers.end() || (known->second.size() > 1) != isShared)
        continue;
      if (auto at = known->second.lower_bound(least); at != known->second.end())
        return *at;
    }
  return least;
}

} // namespace

void alignSegments(func::FuncOp entry, func::FuncOp model) {
  DenseMap<Attribute, std::set<int64_t>> readers;
  for (auto &[segment, variables] : findVariables(model))
    for (Attribute variable : variables)
      readers[variable].insert(segment);
  std::map<int64_t, int64_t> numbers;
  int64_t least = 0;
  for (auto &[segment, variables] : findVariables(entry))
    numbers[segment] = least = findSegment(variables, readers, least);
  for (Operation &op : entry.getBody().front().without_terminator())
    if (std::optional<int64_t> segment = getSegment(&op)) {
      auto known = numbers.find(*segment); // a segment of cloneable ops only has no number
      op.setAttr(kSegmentMark,
                 Builder(entry).getI64IntegerAttr(known == numbers.end() ? 0 : known->second));
    }
}

} // namespace parashard::pipeline
