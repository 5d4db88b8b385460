// Chooses the ops that each segment recomputes, so that the measured memory fits the budget.
#include "RecomputeBudget.h"
#include "ChoiceFrontier.h"
#include "PointSearch.h"
#include "RecomputeTime.h"
#include "Recomputer.h"
#include "dialects/ps/Refusal.h"
#include "lib/IR/Stages.h"
#include "lib/Memory/Peak.h"
#include "lib/Pipeline/LocalCost.h"
#include "lib/Sharding/Explain.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::memory;

namespace {
/// Builds the graph of a segment's forward.
class GraphReader {
public:
  GraphReader(const Recomputer &recomputer, ps::MeshOp mesh, const costs::Device &device,
              int64_t number)
      : recomputer(recomputer), mesh(mesh), device(device), number(number) {}

  SegmentGraph read() {
    for (Operation *op : recomputer.getSegments().at(number).forward)
      add(op);
    return std::move(graph);
  }

private:
  void add(Operation *op) {
    SegmentGraph::Op made{getTime(op, mesh, device), recomputer.canRunAgain(op), {}, {}};
    for (Value operand : op->getOperands())
      made.operands.push_back(getValue(operand));
    int index = graph.ops.size();
    for (Value result : op->getResults()) {
      made.results.push_back(getValue(result));
      SegmentGraph::Value &value = graph.values[made.results.back()];
      value = {isUsedElsewhere(result) ? 0 : getBytes(result), index,
               Recomputer::isKept(result, number)};
    }
    graph.ops.push_back(std::move(made));
  }

  int getValue(Value value) {
    auto [it, isNew] = numbers.insert({value, int(graph.values.size())});
    if (isNew) {
      bool isThere = isa<BlockArgument>(value) || recomputer.isClonedPerSegment(value) ||
                     isUsedElsewhere(value);
      graph.values.push_back({isThere ? 0 : getBytes(value)});
    }
    return it->second;
  }

  int64_t getBytes(Value value) const {
    return isa<RankedTensorType>(value.getType())
               ? ps::getByteSize(pipeline::getLocalType(value, mesh))
               : 0;
  }

  /// Returns true if the backward of another segment uses the value. Such a value is saved, even if
  /// its own segment recomputes it.
  static bool isUsedElsewhere(Value value) {
    std::optional<int64_t> home = ir::getSegment(value.getDefiningOp());
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return ir::isBackward(user) && ir::getSegment(user) != home;
    });
  }

  const Recomputer &recomputer;
  ps::MeshOp mesh;
  const costs::Device &device;
  int64_t number;
  SegmentGraph graph;
  DenseMap<Value, int> numbers;
};

/// The choice of each segment. Segments without recomputation are absent.
using Choices = std::map<int64_t, const SegmentChoice *>;

void applyChoices(ModuleOp module, const Choices &choices) {
  Recomputer recomputer(module.lookupSymbol<func::FuncOp>("micro_batch"));
  for (auto [number, choice] : choices) {
    Rerun rerun;
    for (auto [op, runs] :
         llvm::zip_equal(recomputer.getSegments().at(number).forward, choice->runs)) {
      if (!runs)
        continue;
      rerun.ops.insert(op);
      for (Value result : op->getResults())
        if (Recomputer::isKept(result, number))
          rerun.dropped.insert(result);
    }
    recomputer.run(number, rerun);
  }
}

/// Measures the memory of the module with these choices. Runs the pass pipeline `laterPasses`, up
/// to level `placed`, on a copy of the module. Returns an empty list after an error.
std::vector<MemoryPeak> measure(ModuleOp module, const Choices &choices, StringRef laterPasses) {
  OwningOpRef<ModuleOp> copy = module.clone();
  applyChoices(*copy, choices);
  (*copy)->removeAttr(kLevelMark); // the passes accept modules without a level
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  pm.enableVerifier(false);
  ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &diagnostic) {
    return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
  });
  if (failed(parsePassPipeline(laterPasses, pm)) || failed(pm.run(*copy)))
    return {};
  return findPeaks(*copy);
}

/// Chooses the recomputed ops of the segments of one pipeline coordinate.
///
/// 1. Measures the module without recomputation. If the memory exceeds the budget, the weight of
///    each segment becomes the number of micro-batches whose forward values are live at the peak.
/// 2. Measures points of the frontier of the segments with these weights (`findFrontier`).
/// 3. If no point fits, raises the weights to those at the last measured peak. If no weight
///    increases, raises all weights of 0 to 1. Then repeats step 2.
/// 4. If no weight changed in step 3, recomputes all ops.
class CoordinateSearch {
public:
  struct Segment {
    int64_t number = 0;
    const SegmentGraph *graph = nullptr;
    const std::vector<SegmentChoice> *choices = nullptr;
    int64_t weight = 0;
  };

  CoordinateSearch(std::vector<Segment> segments, int64_t budget)
      : segments(std::move(segments)), budget(budget) {}

  /// Records the peak measured with the current choices, and selects the next choices.
  void record(const MemoryPeak &peak) {
    if (!least || peak.arenaBytes < least->arenaBytes)
      least = peak;
    switch (state) {
    case State::None:
      bytesWithoutRecompute = peak.arenaBytes;
      state = bytesWithoutRecompute <= budget ? State::Done : State::Search;
      if (state == State::Search) {
        addWeights(peak);
        begin();
      }
      return;
    case State::Search:
      return recordSearch(peak);
    case State::All:
      state = peak.arenaBytes <= budget ? State::Done : State::Failed;
      return;
    case State::Done:
    case State::Failed:
      return;
    }
  }

  bool isDone() const { return state == State::Done; }
  bool hasFailed() const { return state == State::Failed; }
  /// Returns the peak of the choice with the least memory.
  const MemoryPeak &getLeast() const { return *least; }

  void addChoices(Choices &all) const {
    for (auto [number, choice] : chosen)
      all[number] = choice;
  }

private:
  enum class State {
    None,   ///< nothing is recomputed
    Search, ///< the ops of one point of the frontier are recomputed
    All,    ///< all recomputable ops are recomputed
    Done,
    Failed,
  };

  void recordSearch(const MemoryPeak &peak) {
    search->record(point, peak.arenaBytes);
    if (std::optional<size_t> next = search->getNext())
      return choose(*next);
    if (std::optional<size_t> best = search->getBest()) {
      choose(*best);
      state = State::Done;
    } else if (addWeights(peak) || addLeastWeights()) {
      begin();
    } else {
      chooseAll();
    }
  }

  /// Raises the weight of each segment to the number of micro-batches whose forward values are live
  /// at `peak`. Never lowers a weight. Returns true if some weight increased.
  bool addWeights(const MemoryPeak &peak) {
    bool isNew = false;
    for (Segment &segment : segments)
      if (auto waiting = peak.waiting.find(segment.number);
          waiting != peak.waiting.end() && waiting->second > segment.weight) {
        segment.weight = waiting->second;
        isNew = true;
      }
    return isNew;
  }

  /// Raises each weight of 0 to 1. Then the search also recomputes segments without live values at
  /// any measured peak. Returns true if some weight changed.
  bool addLeastWeights() {
    bool isNew = false;
    for (Segment &segment : segments) {
      isNew |= segment.weight == 0;
      segment.weight = std::max<int64_t>(segment.weight, 1);
    }
    return isNew;
  }

  void begin() {
    std::vector<WeighedSegment> weighed;
    for (const Segment &segment : segments)
      weighed.push_back({segment.choices, segment.weight});
    frontier = findFrontier(weighed);
    std::vector<int64_t> bytes;
    for (const FrontierPoint &entry : frontier)
      bytes.push_back(entry.bytes);
    search.emplace(std::move(bytes), budget, bytesWithoutRecompute);
    if (std::optional<size_t> next = search->getNext())
      choose(*next);
    else if (addLeastWeights())
      begin();
    else
      chooseAll();
  }

  void choose(size_t next) {
    point = next;
    chosen.clear();
    for (auto [segment, pick] : llvm::zip_equal(segments, frontier[point].picks))
      if (const SegmentChoice &choice = (*segment.choices)[pick]; choice.cost > 0)
        chosen[segment.number] = &choice;
  }

  void chooseAll() {
    state = State::All;
    chosen.clear();
    all.clear();
    for (const Segment &segment : segments)
      all.push_back(
          evaluateChoice(*segment.graph, std::vector<char>(segment.graph->ops.size(), 1)));
    for (auto [segment, choice] : llvm::zip_equal(segments, all))
      chosen[segment.number] = &choice;
  }

  std::vector<Segment> segments;
  int64_t budget;
  State state = State::None;
  int64_t bytesWithoutRecompute = 0; ///< arena bytes if nothing is recomputed
  std::vector<FrontierPoint> frontier;
  std::optional<PointSearch> search;
  size_t point = 0;
  std::vector<SegmentChoice> all;
  Choices chosen;
  std::optional<MemoryPeak> least;
};

class BudgetSearch {
public:
  BudgetSearch(ModuleOp module, const MemoryBudget &budget, const costs::Device &device)
      : module(module), budget(budget) {
    Recomputer recomputer(module.lookupSymbol<func::FuncOp>("micro_batch"));
    ir::Stages stages = ir::getStages(module);
    std::vector<std::vector<CoordinateSearch::Segment>> segments(ir::getPipelineSize(module));
    for (auto &[number, segment] : recomputer.getSegments()) {
      if (!segment.firstBackward)
        continue;
      auto [it, isNew] =
          known.insert({GraphReader(recomputer, ps::getMesh(module), device, number).read(), {}});
      if (isNew)
        it->second = findChoices(it->first);
      segments[stages.getCoordinate(stages.getStage(number))].push_back(
          {number, &it->first, &it->second});
    }
    for (auto &of : segments)
      coordinates.emplace_back(std::move(of), budget.bytes);
  }

  LogicalResult run() {
    auto isOver = [](auto &entry) { return entry.isDone() || entry.hasFailed(); };
    while (!llvm::all_of(coordinates, isOver)) {
      std::vector<MemoryPeak> peaks = measure(module, getChoices(), budget.laterPasses);
      if (peaks.size() != coordinates.size())
        return failure();
      for (auto [entry, peak] : llvm::zip_equal(coordinates, peaks))
        entry.record(peak);
    }
    const MemoryPeak *worst = nullptr;
    for (const CoordinateSearch &entry : coordinates)
      if (entry.hasFailed() && (!worst || entry.getLeast().arenaBytes > worst->arenaBytes))
        worst = &entry.getLeast();
    if (worst)
      return refuse(*worst);
    applyChoices(module, getChoices());
    return success();
  }

private:
  Choices getChoices() const {
    Choices choices;
    for (const CoordinateSearch &entry : coordinates)
      entry.addChoices(choices);
    return choices;
  }

  LogicalResult refuse(const MemoryPeak &least) {
    constexpr size_t most = 5;
    InFlightDiagnostic error = ps::refuseFlag(module, "recompute budget=" + budget.text);
    error << ": a rank";
    if (coordinates.size() > 1)
      error << " of pipeline coordinate " << least.coordinate;
    error << " needs at least " << sharding::formatBytes(least.arenaBytes) << " ("
          << least.arenaBytes
          << " bytes), even if everything except communication is recomputed. Increase the budget, "
             "use "
             "--recompute full+communication, or reduce memory: more micro-batches of fewer "
             "samples, --zero, or more ranks in --mesh (tensor parallel, stages). The largest "
             "buffers at the peak (in "
          << least.instant << "):";
    for (auto [i, holder] : llvm::enumerate(llvm::ArrayRef(least.holders).take_front(most)))
      error << (i ? ", " : " ") << sharding::formatBytes(holder.bytes) << " of " << holder.kind
            << " " << holder.name;
    return error;
  }

  ModuleOp module;
  const MemoryBudget &budget;
  std::map<SegmentGraph, std::vector<SegmentChoice>> known; ///< the choices of equal segments
  std::vector<CoordinateSearch> coordinates;
};
} // namespace

LogicalResult memory::recomputeUnderBudget(ModuleOp module, const MemoryBudget &budget,
                                           const costs::Device &device) {
  if (!module.lookupSymbol("micro_batch"))
    return success(); // without backward, no value is saved
  module->setAttr(kMemoryBudgetMark,
                  IntegerAttr::get(IntegerType::get(module.getContext(), 64), budget.bytes));
  return BudgetSearch(module, budget, device).run();
}
