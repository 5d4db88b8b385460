// The pass ps-explain-collectives: every collective of a step, with its bytes and its cause.
#include "lib/Partition/Collectives.h"
#include "lib/Partition/Passes.h"
#include "lib/Sharding/Explain.h"
#include "lib/Sharding/Reasons.h"

using namespace mlir;

namespace parashard::ps {
#define GEN_PASS_DEF_EXPLAINCOLLECTIVESPASS
#include "lib/Partition/Passes.h.inc"

bool isCollective(Operation *op) {
  return isa<AllReduceOp, ReduceScatterOp, AllGatherOp, AllToAllOp, PermuteOp>(op);
}

void setCause(Operation *collective, const Twine &what, const Twine &why) {
  Builder b(collective->getContext());
  collective->setDiscardableAttr(kCauseMark,
                                 b.getArrayAttr({b.getStringAttr(what), b.getStringAttr(why)}));
}

namespace {
/// One kind of movement, at all the places where it happens alike.
struct Row {
  std::string kind; ///< all_reduce, reduce_scatter, all_gather, all_to_all, permute
  std::string axes; ///< dp, tp
  std::string when; ///< forward, backward, update, evaluate, count
  std::string what, why;
  std::string location; ///< the first place, as the model's source
  int64_t count = 0;
  int64_t bytes = 0; ///< of all places together: what one rank gives in

  bool isLike(const Row &other) const {
    return std::tie(kind, axes, when, what, why) ==
           std::tie(other.kind, other.axes, other.when, other.what, other.why);
  }
};

std::string joinAxes(ArrayAttr axes) {
  std::string text;
  for (StringAttr axis : axes.getAsRange<StringAttr>())
    text += (text.empty() ? "" : ", ") + axis.str();
  return text;
}

/// What runs before the micro-batches has no phase of its own: it is named after its function.
std::string getWhen(Operation *op) {
  auto function = op->getParentOfType<func::FuncOp>();
  if (function && (function.getName() == "evaluate" || function.getName() == "count"))
    return function.getName().str();
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
  if (!phase)
    return "forward";
  if (phase.getValue() == Phase::BackwardInput || phase.getValue() == Phase::BackwardWeight)
    return "backward";
  return stringifyPhase(phase.getValue()).str();
}

Row describeCollective(Operation *op) {
  auto cause = op->getAttrOfType<ArrayAttr>(kCauseMark);
  auto say = [&](unsigned i) { return cause ? cast<StringAttr>(cause[i]).str() : "not recorded"; };
  return {op->getName().stripDialect().str(),
          joinAxes(op->getAttrOfType<ArrayAttr>("axes")),
          getWhen(op),
          say(0),
          say(1),
          describeLocation(op->getLoc()),
          1,
          getByteSize(cast<RankedTensorType>(op->getOperand(0).getType()))};
}

std::vector<Row> collect(ModuleOp module) {
  std::vector<Row> rows;
  module.walk([&](Operation *op) {
    if (!isCollective(op))
      return;
    Row row = describeCollective(op);
    auto known = llvm::find_if(rows, [&](const Row &other) { return other.isLike(row); });
    if (known == rows.end())
      return rows.push_back(std::move(row));
    known->count += 1;
    known->bytes += row.bytes;
  });
  return rows;
}

void print(ArrayRef<Row> rows, llvm::raw_ostream &os) {
  os << "\ncollectives (forward and backward: of one micro-batch)\n";
  if (rows.empty()) {
    os << "  none\n";
    return;
  }
  std::vector<std::vector<std::string>> table = {
      {"count", "bytes", "collective", "axes", "when", "what", "why", "first at"}};
  for (const Row &row : rows)
    table.push_back({std::to_string(row.count), formatBytes(row.bytes), row.kind, row.axes,
                     row.when, row.what, row.why, row.location});
  printTable(table, os);
}

struct ExplainCollectivesPass : impl::ExplainCollectivesPassBase<ExplainCollectivesPass> {
  using ExplainCollectivesPassBase::ExplainCollectivesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::string text;
    llvm::raw_string_ostream os(text);
    print(collect(module), os);
    if (!record) {
      llvm::outs() << text;
      return;
    }
    if (auto plan = module->getAttrOfType<StringAttr>(kExplanationMark))
      module->setAttr(kExplanationMark, StringAttr::get(&getContext(), plan.str() + text));
    module.walk([](Operation *op) { op->removeAttr(kCauseMark); });
  }
};
} // namespace
} // namespace parashard::ps
