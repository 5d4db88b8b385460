// Implements ps-explain-collectives: lists every collective of a step with its bytes and cause.
#include "lib/IR/Collectives.h"
#include "lib/Partition/Passes.h"
#include "lib/Sharding/Explain.h"
#include "lib/Sharding/Reasons.h"
#include <numeric>

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

//===----------------------------------------------------------------------===//
// Conversion to and from attributes
//===----------------------------------------------------------------------===//

static DictionaryAttr toAttribute(const ExplainedCollective &row, Builder b) {
  SmallVector<StringRef> places(row.places.begin(), row.places.end());
  auto field = [&](StringRef name, const std::string &text) {
    return b.getNamedAttr(name, b.getStringAttr(text));
  };
  return b.getDictionaryAttr({field("kind", row.kind), field("axes", row.axes),
                              field("when", row.when), field("what", row.what),
                              field("why", row.why),
                              b.getNamedAttr("places", b.getStrArrayAttr(places)),
                              b.getNamedAttr("bytes", b.getDenseI64ArrayAttr(row.bytes))});
}

void recordCollectives(ModuleOp module, ArrayRef<ExplainedCollective> collectives) {
  Builder b(module.getContext());
  SmallVector<Attribute> rows;
  for (const ExplainedCollective &row : collectives)
    rows.push_back(toAttribute(row, b));
  module->setAttr(kCollectivesMark, b.getArrayAttr(rows));
}

static ExplainedCollective fromAttribute(DictionaryAttr row) {
  auto field = [&](StringRef name) {
    auto text = row.getAs<StringAttr>(name);
    return text ? text.str() : std::string();
  };
  ExplainedCollective result{
      field("kind"), field("axes"), field("when"), field("what"), field("why"), {}, {}};
  auto places = row.getAs<ArrayAttr>("places");
  auto bytes = row.getAs<DenseI64ArrayAttr>("bytes");
  if (places && bytes && places.size() == size_t(bytes.size()))
    for (auto [location, size] : llvm::zip_equal(places, bytes.asArrayRef()))
      if (auto text = dyn_cast<StringAttr>(location)) {
        result.places.push_back(text.str());
        result.bytes.push_back(size);
      }
  return result;
}

std::optional<std::vector<ExplainedCollective>> getCollectives(ModuleOp module) {
  auto rows = module->getAttrOfType<ArrayAttr>(kCollectivesMark);
  if (!rows)
    return std::nullopt;
  std::vector<ExplainedCollective> result;
  for (auto row : rows.getAsRange<DictionaryAttr>())
    result.push_back(fromAttribute(row));
  return result;
}

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

/// Returns the part of a step that runs an op: its phase, or the name of @evaluate or @count. Ops
/// before the micro-batches have no phase and count as forward.
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
    known->places.push_back(std::move(row.places.front()));
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
    table.push_back({std::to_string(row.places.size()),
                     formatBytes(std::accumulate(row.bytes.begin(), row.bytes.end(), int64_t(0))),
                     row.kind, row.axes, row.when, row.what, row.why, row.places.front()});
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
} // namespace parashard::ps
