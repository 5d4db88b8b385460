// Collects the costs of a step for the report: class functions, their ops, and flops per segment.
#include "Gather.h"
#include "dialects/ps/Entries.h"
#include "lib/Fusion/Fused.h"
#include "lib/IR/Collectives.h"
#include "lib/IR/ModulePath.h"
#include "lib/IR/OpTimes.h"
#include "lib/Sharding/Reasons.h"
#include "parashard/Import.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace mlir;
using namespace parashard::ir;
namespace json = llvm::json;

namespace parashard::report {

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

void Cost::add(const Cost &cost, int64_t times) {
  contraction += times * cost.contraction;
  other += times * cost.other;
  bytes += times * cost.bytes;
}

json::Object Cost::toJson() const {
  return json::Object{{"contraction", contraction}, {"other", other}, {"bytes", bytes}};
}

/// Returns the cost of an op without its body. Movement ops have no flops.
static Cost getOwnCost(Operation *op) {
  Cost cost;
  cost.bytes = ir::sumBytes(op->getOperandTypes()) + ir::sumBytes(op->getResultTypes());
  auto priced = dyn_cast<ps::CostOpInterface>(op);
  if (!priced)
    return cost;
  ps::OpCost own = priced.getCost(op->getOperandTypes(), op->getResultTypes());
  cost.contraction = own.contractionFlops;
  auto lowering = dyn_cast<ps::LoweringOpInterface>(op);
  if (!lowering || lowering.getLoweringKind() != ps::LoweringKind::Movement)
    cost.other = own.otherFlops;
  return cost;
}

/// Returns the cost of an op. A fused op has the flops of its body, but moves only its own operands
/// and results.
static Cost getCost(Operation *op) {
  Cost cost = getOwnCost(op);
  if (auto fused = dyn_cast<ps::FusedOp>(op))
    for (Operation *inner : fusion::getBodyOps(fused))
      if (!hasNoKernel(inner)) {
        Cost own = getOwnCost(inner);
        cost.contraction += own.contraction;
        cost.other += own.other;
      }
  return cost;
}

//===----------------------------------------------------------------------===//
// Contents of class functions
//===----------------------------------------------------------------------===//

/// Describes the types of an op. Example: "4x128x64 f32, 64x64 f32 -> 4x128x64 f32".
static std::string describeTypes(Operation *op) {
  auto list = [](TypeRange types) {
    std::string text;
    for (Type type : types)
      if (auto tensor = dyn_cast<RankedTensorType>(type)) {
        llvm::raw_string_ostream os(text);
        os << (text.empty() ? "" : ", ");
        llvm::interleave(tensor.getShape(), os, "x");
        os << (tensor.getRank() ? " " : "") << tensor.getElementType();
      }
    return text;
  };
  return list(op->getOperandTypes()) + " -> " + list(op->getResultTypes());
}

/// Adds the ops of a fused group, their source locations and the names of its kernels to `item`.
static void describeBody(ps::FusedOp fused, json::Object &item) {
  json::Array ops, locations;
  SmallVector<std::string> texts;
  SmallVector<Operation *> body = fusion::getBodyOps(fused);
  bool onlyMoves = llvm::all_of(body, hasNoKernel);
  for (Operation *inner : body) {
    if (hasNoKernel(inner) && !onlyMoves)
      continue;
    ops.push_back(inner->getName().stripDialect());
    std::string location = sharding::describeLocation(inner->getLoc());
    if (!location.empty() && !llvm::is_contained(texts, location))
      texts.push_back(location);
  }
  for (const std::string &text : texts)
    locations.push_back(toText(text));
  item["ops"] = std::move(ops);
  item["locations"] = std::move(locations);
  json::Array names;
  if (auto kernels = fused->getAttrOfType<ArrayAttr>(kKernelsMark))
    for (auto name : kernels.getAsRange<StringAttr>())
      names.push_back(name.getValue());
  item["kernels"] = std::move(names);
}

/// Returns the kind of an op:
/// - kernel: a fused group
/// - collective: communication between ranks
/// - library: a library call
/// - local: other ops on a rank's own values, such as slices
static StringRef getKind(Operation *op) {
  if (isa<ps::FusedOp>(op))
    return "kernel";
  if (ir::isCollective(op))
    return "collective";
  auto lowering = dyn_cast<ps::LoweringOpInterface>(op);
  bool isCall = lowering && lowering.getLoweringKind() == ps::LoweringKind::Library;
  return isCall ? "library" : "local";
}

static json::Object describeItem(Operation *op) {
  json::Object item = getCost(op).toJson();
  item["kind"] = getKind(op);
  item["types"] = describeTypes(op);
  if (auto fused = dyn_cast<ps::FusedOp>(op)) {
    describeBody(fused, item);
    return item;
  }
  item["ops"] = json::Array{op->getName().stripDialect()};
  item["locations"] = json::Array{toText(sharding::describeLocation(op->getLoc()))};
  if (auto form = op->getAttrOfType<StringAttr>(kAttentionFormMark))
    item["form"] = toText(form.getValue());
  if (auto axes = op->getAttrOfType<ArrayAttr>("axes")) {
    std::string names;
    for (auto axis : axes.getAsRange<StringAttr>())
      names += (names.empty() ? "" : ", ") + toText(axis.getValue());
    item["axes"] = names;
  }
  return item;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

static ps::Phase getPhase(func::FuncOp function) {
  auto phase = function->getAttrOfType<ps::PhaseAttr>(kPhaseMark);
  return phase ? phase.getValue() : ps::Phase::Forward;
}

/// Returns the number of micro-batches whose inputs the training programs read (`rank.input`), at
/// least 1. Returns `given` for a module without programs, that is, before level 4.
static int64_t countMicroBatches(ModuleOp module, int64_t given) {
  std::optional<int64_t> count;
  for (auto program : module.getOps<rank::ProgramOp>()) {
    if (program.getEntry() == "evaluate" || ps::isInferenceEntry(program))
      continue;
    count = std::max<int64_t>(count.value_or(1), 1);
    for (auto input : program.getBody().front().getOps<rank::InputOp>())
      count = std::max<int64_t>(*count, input.getMicroBatch() + 1);
  }
  return count.value_or(given);
}

Work::Work(ModuleOp module, int64_t given)
    : module(module), symbols(module), microBatches(countMicroBatches(module, given)) {
  // At level 3, a stage function of `@micro_batch` or `@count` is the work of a single micro-batch.
  // From level 4 on, a program contains the runs of every micro-batch.
  for (auto stage : module.getOps<func::FuncOp>())
    if (stage->hasAttr(kStageMark)) {
      bool repeats =
          stage.getName().ends_with(".micro_batch") || stage.getName().ends_with(".count");
      stage.walk([&](rank::RunOp run) { addRun(run, repeats ? microBatches : 1); });
    }
  for (auto program : module.getOps<rank::ProgramOp>())
    program.walk([&](rank::RunOp run) { addRun(run, 1); });
  for (auto &[key, run] : runs) {
    auto [known, isNew] = costs.try_emplace(run.callee);
    int64_t kernels = 0, calls = 0;
    for (Operation &op : run.callee.getBody().front()) {
      if (hasNoKernel(&op))
        continue;
      if (isNew)
        known->second.add(getCost(&op));
      kernels += getKind(&op) == "kernel";
      calls += getKind(&op) == "library";
    }
    if (getPhase(run.callee) == ps::Phase::Evaluate)
      continue;
    step.add(known->second, run.times);
    kernelCalls += kernels * run.times;
    libraryCalls += calls * run.times;
  }
}

void Work::addRun(rank::RunOp run, int64_t times) {
  auto callee = symbols.lookup<func::FuncOp>(run.getCallee());
  std::optional<int64_t> segment;
  if (auto number = run.getSegment())
    segment = *number;
  RunCount fresh{callee, segment, run.getLoc(), 0};
  runs.insert({{callee, segment.value_or(-1)}, fresh}).first->second.times += times;
}

json::Array Work::listClasses() {
  llvm::DenseMap<Operation *, int64_t> times;
  for (auto &[key, run] : runs)
    times[key.first] += run.times;
  json::Array classes;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!costs.contains(function))
      continue;
    json::Array items;
    for (Operation &inner : function.getBody().front())
      if (!hasNoKernel(&inner))
        items.push_back(describeItem(&inner));
    json::Object object = costs[function].toJson();
    auto name = function->getAttrOfType<StringAttr>(kClassMark);
    object["class"] = toText(name ? name.getValue() : function.getName());
    object["function"] = toText(function.getName());
    object["phase"] = ps::stringifyPhase(getPhase(function));
    object["runs"] = times[function];
    object["at"] = toText(sharding::describeLocation(function.getLoc()));
    object["items"] = std::move(items);
    classes.push_back(std::move(object));
  }
  return classes;
}

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

/// Lists the first three modules of a function's ops. Example: "norm, head".
static std::string listModules(func::FuncOp function) {
  SmallVector<StringRef> paths;
  function.walk([&](Operation *op) {
    std::optional<StringRef> path = ir::getModulePath(op->getLoc());
    if (path && !path->empty() && !hasNoKernel(op) && !llvm::is_contained(paths, *path))
      paths.push_back(*path);
  });
  constexpr size_t most = 3;
  std::string text = llvm::join(ArrayRef(paths).take_front(most), ", ");
  return paths.size() > most ? text + ", ..." : text;
}

/// Returns the name of a segment for the report. A segment of a layer is named by the module path
/// of the layer, such as "transformer.h.0". The name of any other segment lists the modules of its
/// ops, such as "norm, head". If the function of such a segment also runs on another segment, the
/// name is the class.
std::string Work::getSegmentName(RunCount run) {
  std::optional<StringRef> path = ir::getModulePath(run.loc);
  if (StringRef block = path ? ir::getBlockOfPath(*path) : StringRef(); !block.empty())
    return toText(block);
  bool isOnlyOne =
      llvm::count_if(runs, [&](auto &other) { return other.second.callee == run.callee; }) == 1;
  if (std::string modules = listModules(run.callee); isOnlyOne && !modules.empty())
    return toText(modules);
  auto name = run.callee->getAttrOfType<StringAttr>(kClassMark);
  return toText(name ? name.getValue() : run.callee.getName());
}

json::Object Work::listFlops() {
  struct Segment {
    std::string name;
    llvm::MapVector<ps::Phase, Cost> phases;
  };
  std::map<int64_t, Segment> segments;
  Cost update;
  for (auto &[key, run] : runs) {
    ps::Phase phase = getPhase(run.callee);
    if (phase == ps::Phase::Evaluate)
      continue;
    if (!run.segment) {
      update.add(costs[run.callee], run.times);
      continue;
    }
    Segment &segment = segments[*run.segment];
    if (segment.name.empty())
      segment.name = getSegmentName(run);
    segment.phases[phase].add(costs[run.callee], run.times);
  }
  json::Array rows;
  for (auto &[number, segment] : segments) {
    json::Object row{{"segment", number}, {"name", segment.name}};
    for (auto &[phase, cost] : segment.phases)
      row[ps::stringifyPhase(phase)] = cost.toJson();
    rows.push_back(std::move(row));
  }
  return json::Object{{"segments", std::move(rows)}, {"rest", update.toJson()}};
}

json::Array Work::listSegments() {
  struct Segment {
    std::string name;
    std::vector<std::string> functions;
  };
  std::map<int64_t, Segment> segments;
  for (auto &[key, run] : runs) {
    if (!run.segment)
      continue;
    Segment &segment = segments[*run.segment];
    if (segment.name.empty())
      segment.name = getSegmentName(run);
    segment.functions.push_back(toText(run.callee.getName()));
  }
  json::Array rows;
  for (auto &[number, segment] : segments)
    rows.push_back(json::Object{{"segment", number},
                                {"name", segment.name},
                                {"functions", json::Array(segment.functions)}});
  return rows;
}

} // namespace parashard::report
