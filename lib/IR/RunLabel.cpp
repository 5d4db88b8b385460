// Creates the label of a run.
#include "lib/IR/RunLabel.h"

namespace parashard::ir {

std::string getRunLabel(rank::RunOp run) {
  std::string label = run.getCallee().str();
  if (auto segment = run.getSegment())
    label += " " + std::to_string(*segment);
  return label;
}

} // namespace parashard::ir
