// Implements ps-print-sharding-rules, for tests and to debug propagation.
#include "lib/Evaluate/Passes.h"

namespace parashard::evaluate {
#define GEN_PASS_DEF_PRINTSHARDINGRULESPASS
#include "lib/Evaluate/Passes.h.inc"
} // namespace parashard::evaluate

using namespace mlir;
using namespace parashard;
using namespace parashard::evaluate;

/// Prints the groups of operands in which the op is jointly linear. Example: ` linear {0} {1, 2}`.
static void printLinear(const ps::ShardingRule &rule, llvm::raw_ostream &os) {
  if (rule.linear.empty())
    return;
  os << " linear";
  for (const auto &group : rule.linear) {
    os << " {";
    llvm::interleaveComma(group, os);
    os << '}';
  }
}

namespace {
class PrintShardingRulesPass
    : public evaluate::impl::PrintShardingRulesPassBase<PrintShardingRulesPass> {
  void runOnOperation() override {
    getOperation()->walk([](ps::ShardingOpInterface op) {
      std::string text;
      llvm::raw_string_ostream os(text);
      ps::ShardingRule rule = op.getShardingRule();
      rule.print(os);
      printLinear(rule, os);
      op->emitRemark(text);
    });
    markAllAnalysesPreserved();
  }
};
} // namespace
