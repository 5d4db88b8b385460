// Implements ps-explain-collectives: lists every collective of a step with its bytes and cause.
#include "dialects/ps/Entries.h"
#include "lib/IR/Collectives.h"
#include "lib/Partition/Passes.h"
#include "lib/Sharding/Explain.h"
#include "lib/Sharding/Reasons.h"
#include <numeric>

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;
using namespace parashard::sharding;

namespace parashard::partition {
#define GEN_PASS_DEF_EXPLAINCOLLECTIVESPASS
#include "lib/Partition/Passes.h.inc"

//===----------------------------------------------------------------------===//
// Collection from the functions
//===----------------------------------------------------------------------===//

namespace {
std::string joinAxes(ArrayAttr axes) {
  std::string text;
  for (StringAttr axis : axes.getAsRange<StringAttr>())
    text += (text.empty() ? "" : ", ") + axis.str();
  return text;
}

/// Returns when an op runs: "evaluate" (also for inference entries), "count", "forward", "backward"
/// or "update". Ops without a phase count as forward.
std::string getWhen(Operation *op) {
  auto function = op->getParentOfType<func::FuncOp>();
  if (function && isInferenceEntry(function))
    return "evaluate";
  if (function && (function.getName() == "evaluate" || function.getName() == "count"))
    return function.getName().str();
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
  if (!phase)
    return "forward";
  if (phase.getValue() == Phase::BackwardInput || phase.getValue() == Phase::BackwardWeight)
    return "backward";
  return stringifyPhase(phase.getValue()).str();
}

ExplainedCollective describeCollective(Operation *op) {
  auto cause = op->getAttrOfType<ArrayAttr>(kCauseMark);
  auto getText = [&](unsigned i) {
    return cause ? cast<StringAttr>(cause[i]).str() : "not recorded";
  };
  return {op->getName().stripDialect().str(),
          joinAxes(op->getAttrOfType<ArrayAttr>("axes")),
          getWhen(op),
          getText(0),
          getText(1),
          {describeLocation(op->getLoc())},
          {getByteSize(cast<RankedTensorType>(op->getOperand(0).getType()))}};
}

std::vector<ExplainedCollective> collect(ModuleOp module) {
  std::vector<ExplainedCollective> rows;
  module.walk([&](Operation *op) {
    if (!isCollective(op))
      return;
    ExplainedCollective row = describeCollective(op);
    auto known =
        llvm::find_if(rows, [&](const ExplainedCollective &other) { return other.isLike(row); });
    if (known == rows.end())
      return rows.push_back(std::move(row));
    known->locations.push_back(std::move(row.locations.front()));
    known->bytes.push_back(row.bytes.front());
  });
  return rows;
}

void print(ArrayRef<ExplainedCollective> rows, llvm::raw_ostream &os) {
  os << "\ncollectives (forward and backward: per micro-batch)\n";
  if (rows.empty()) {
    os << "  none\n";
    return;
  }
  std::vector<std::vector<std::string>> table = {
      {"count", "bytes", "collective", "axes", "when", "what", "why", "first at"}};
  for (const ExplainedCollective &row : rows)
    table.push_back({std::to_string(row.locations.size()),
                     formatBytes(std::accumulate(row.bytes.begin(), row.bytes.end(), int64_t(0))),
                     row.kind, row.axes, row.when, row.what, row.why, row.locations.front()});
  printTable(table, os);
}

struct ExplainCollectivesPass : impl::ExplainCollectivesPassBase<ExplainCollectivesPass> {
  using ExplainCollectivesPassBase::ExplainCollectivesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::vector<ExplainedCollective> collectives = collect(module);
    std::string text;
    llvm::raw_string_ostream os(text);
    print(collectives, os);
    if (!record) {
      llvm::outs() << text;
      return;
    }
    if (auto plan = module->getAttrOfType<StringAttr>(kExplanationMark)) {
      module->setAttr(kExplanationMark, StringAttr::get(&getContext(), plan.str() + text));
      recordCollectives(module, collectives);
    }
    module.walk([](Operation *op) { op->removeAttr(kCauseMark); });
  }
};
} // namespace
} // namespace parashard::partition
