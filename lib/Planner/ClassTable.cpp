// Reads class tables from programs of one pipeline coordinate.
#include "lib/Planner/ClassTable.h"
#include "lib/IR/Stages.h"
#include "lib/Memory/Peak.h"
#include "lib/Planner/RunTimes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"
#include <set>

using namespace mlir;
using namespace parashard::costs;

namespace parashard::planner {

void SegmentCost::addVariables(const SegmentCost &other) {
  parameters += other.parameters;
  constants += other.constants;
  gradients += other.gradients;
  states += other.states;
}

double SegmentCost::getVariableBytes(int64_t zero, int64_t shards) const {
  auto divide = [&](double bytes, int64_t from) {
    return zero >= from ? bytes / double(shards) : bytes;
  };
  return constants + divide(parameters, 3) + divide(gradients, 2) + divide(states, 1);
}

/// Changes the costs of a segment as ZeRO 1 changes them from `whole` to `divided`.
static SegmentCost applyZero(const SegmentCost &segment, const SegmentCost &whole,
                             const SegmentCost &divided) {
  SegmentCost result = divided;
  for (Breakdown SegmentCost::*phase :
       {&SegmentCost::forward, &SegmentCost::backwardInput, &SegmentCost::backwardWeight}) {
    (result.*phase).add(segment.*phase);
    (result.*phase).add(whole.*phase, -1);
  }
  for (double SegmentCost::*bytes :
       {&SegmentCost::saved, &SegmentCost::deferred, &SegmentCost::kept, &SegmentCost::boundary,
        &SegmentCost::transient})
    result.*bytes = std::max(0.0, segment.*bytes + divided.*bytes - whole.*bytes);
  return result;
}

llvm::Expected<ClassTable> applyZero(ClassTable table, const ClassTable &whole,
                                     const ClassTable &divided) {
  size_t count = table.segments.size();
  if (whole.segments.size() != count || divided.segments.size() != count)
    return llvm::createStringError("the programs with and without ZeRO, or with different numbers "
                                   "of samples, do not have the same number of segments");
  for (size_t i = 0; i < count; ++i)
    table.segments[i] = applyZero(table.segments[i], whole.segments[i], divided.segments[i]);
  table.sharedUpdate = divided.sharedUpdate;
  table.tied = divided.tied;
  table.sums = divided.sums;
  return table;
}

namespace {

/// A value that forward keeps for backward or until the end of the step.
struct Saved {
  double bytes;
  size_t begin, end; ///< indices of the producing op and of the last user
};

class TableReader {
public:
  TableReader(ModuleOp module, rank::ProgramOp program, const Cluster &cluster,
              ArrayRef<ir::AxisSize> axes, TableFacts &facts)
      : module(module), symbols(module), mesh(ps::getMesh(module)),
        times(cluster, axes, &facts.calls), runs(module, times), facts(facts) {
    for (Operation &op : program.getBody().front()) {
      indices[&op] = ops.size();
      ops.push_back(&op);
    }
  }

  ClassTable read() {
    for (Operation *op : ops)
      if (auto run = dyn_cast<rank::RunOp>(op); run && run.getSegment())
        addRun(run);
    addTied();
    for (auto variable : module.getOps<ps::VariableOp>())
      addVariable(variable);
    for (Operation *op : ops)
      if (auto run = dyn_cast<rank::RunOp>(op); run && !run.getSegment())
        addUpdate(run);
      else if (auto start = dyn_cast<rank::StartOp>(op))
        addCollective(start);
    addSums();
    addValues();
    addTransients();
    repeat();
    return std::move(table);
  }

private:
  SegmentCost &at(int64_t segment) {
    if (size_t(segment) >= table.segments.size())
      table.segments.resize(size_t(segment) + 1);
    return table.segments[size_t(segment)];
  }

  static std::optional<ps::Phase> getPhase(Operation *op) {
    auto phase = op->getAttrOfType<ps::PhaseAttr>(kPhaseMark);
    return phase ? std::optional(phase.getValue()) : std::nullopt;
  }

  /// Returns the parameter that a variable belongs to, or the variable itself.
  StringRef getRoot(StringRef symbol) {
    auto variable = symbols.lookup<ps::VariableOp>(symbol);
    while (variable && variable.getOf() && symbols.lookup<ps::VariableOp>(*variable.getOf()))
      variable = symbols.lookup<ps::VariableOp>(*variable.getOf());
    return variable ? variable.getSymName() : symbol;
  }

  void addRun(rank::RunOp run) {
    int64_t segment = *run.getSegment();
    SegmentCost &cost = at(segment);
    std::optional<ps::Phase> phase = getPhase(run);
    (phase == ps::Phase::Forward         ? cost.forward
     : phase == ps::Phase::BackwardInput ? cost.backwardInput
                                         : cost.backwardWeight)
        .add(runs.get(run));
    for (FlatSymbolRefAttr symbol : run.getVariableSymbols())
      use(symbol.getValue(), segment);
    for (Value input : run.getInputs()) // a gathered parameter
      if (auto start = input.getDefiningOp<rank::StartOp>())
        for (Value operand : start.getOperands())
          if (auto read = operand.getDefiningOp<ps::ReadOp>(); read && read.getVariable())
            use(*read.getVariable(), segment);
  }
  void use(StringRef symbol, int64_t segment) {
    users[getRoot(symbol)].insert(segment);
    usedByModel.insert(symbol);
  }

  std::optional<int64_t> findHome(StringRef symbol) {
    auto found = users.find(getRoot(symbol));
    return found == users.end() ? std::nullopt : std::optional(*found->second.begin());
  }

  /// Returns the costs to which a variable is added: those of the first segment that uses its
  /// parameter and, if the parameter is tied, those of the tied parameter.
  SmallVector<SegmentCost *, 2> findCosts(StringRef symbol) {
    SmallVector<SegmentCost *, 2> costs;
    if (std::optional<int64_t> segment = findHome(symbol))
      costs.push_back(&at(*segment));
    if (auto found = tied.find(getRoot(symbol)); found != tied.end())
      costs.push_back(&table.tied[found->second].cost);
    return costs;
  }

  void addTied() {
    for (auto variable : module.getOps<ps::VariableOp>()) {
      auto found = users.find(variable.getSymName());
      if (variable.getKind() != ps::VariableKind::Parameter || found == users.end() ||
          found->second.size() < 2)
        continue;
      tied[variable.getSymName()] = table.tied.size();
      table.tied.push_back({llvm::to_vector<2>(found->second), {}});
    }
  }

  /// Returns the bytes of a variable on one rank, as if no data axis split it.
  double getBytes(ps::VariableOp variable) {
    double bytes = double(ps::getByteSize(variable.getTensorType()));
    if (!mesh || !variable.getSharding())
      return bytes;
    SmallVector<StringAttr> axes;
    for (unsigned dim = 0; dim < variable.getTensorType().getRank(); ++dim)
      for (StringAttr axis : variable.getSharding().getDimAxes(dim))
        if (!llvm::is_contained(mesh.getAxesOfKind(ps::AxisKind::Data), axis))
          axes.push_back(axis);
    return bytes / double(mesh.getShards(axes));
  }

  void addVariable(ps::VariableOp variable) {
    for (SegmentCost *cost : findCosts(variable.getSymName()))
      getBytes(*cost, variable) += getBytes(variable);
  }

  /// Returns the member of `cost` to which the bytes of a variable are added.
  double &getBytes(SegmentCost &cost, ps::VariableOp variable) {
    switch (variable.getKind()) {
    case ps::VariableKind::Gradient:
      return cost.gradients;
    case ps::VariableKind::Optimizer:
      return cost.states;
    case ps::VariableKind::Parameter:
      return usedByModel.contains(variable.getSymName()) ? cost.parameters : cost.states;
    case ps::VariableKind::Average: // shares the sharding of its parameter
      return usedByModel.contains(*variable.getOf()) ? cost.parameters : cost.states;
    case ps::VariableKind::Copy:
      return cost.parameters;
    default:
      return cost.constants;
    }
  }

  void addUpdate(rank::RunOp run) {
    if (getPhase(run) != ps::Phase::Update)
      return;
    const Breakdown &parts = runs.get(run);
    double communication = parts[Part::DataParallel], launches = parts[Part::Launch];
    double kernels = parts.sum() - communication - launches;
    for (FlatSymbolRefAttr symbol : run.getVariableSymbols()) {
      SmallVector<SegmentCost *, 2> costs = findCosts(symbol.getValue());
      for (SegmentCost *cost : costs) {
        cost->update += kernels;
        cost->updateLaunches += launches;
        cost->updateCommunication += communication;
      }
      if (!costs.empty())
        return;
    }
    table.sharedUpdate += parts.sum();
  }

  /// Adds the seconds of a collective to the segments that its tensors belong to.
  void addCollective(rank::StartOp start) {
    std::optional<Collective> collective = findCollective(start.getCollective());
    if (!collective || start.getOverPp())
      return;
    SmallVector<StringAttr> axes = start.getAxisNames();
    auto getSize = [](Value operand, Value result) {
      return double(ir::getCollectiveBytes(operand.getType(), result.getType()));
    };
    double bytes = 0;
    for (auto [operand, result] : llvm::zip(start.getOperands(), start.getResults()))
      bytes += getSize(operand, result);
    std::optional<int64_t> after = findLastBackward(start);
    for (auto [operand, result] : llvm::zip(start.getOperands(), start.getResults())) {
      double size = getSize(operand, result);
      double seconds = *collective == Collective::AllReduce
                           ? times.getCollectiveSeconds(*collective, axes, bytes) * size / bytes
                           : times.getCollectiveSeconds(*collective, axes, size);
      addSeconds(operand, result, seconds, after, size);
    }
  }

  /// Adds the seconds of a collective for one of its tensors. `bytes` is the size of the operand or
  /// of the result, whichever is larger.
  void addSeconds(Value operand, Value result, double seconds, std::optional<int64_t> after,
                  double bytes) {
    for (Operation *user : result.getUsers()) // a parameter that a segment gathers
      if (auto run = dyn_cast<rank::RunOp>(user); run && run.getSegment()) {
        SegmentCost &cost = at(*run.getSegment());
        (getPhase(run) == ps::Phase::Forward ? cost.forwardGathers : cost.backwardGathers) +=
            seconds;
        return;
      }
    auto read = operand.getDefiningOp<ps::ReadOp>();
    std::optional<int64_t> segment =
        read && read.getVariable() ? findHome(*read.getVariable()) : std::nullopt;
    if (!segment) {
      table.sharedUpdate += seconds;
      return;
    }
    SegmentCost &cost = at(*segment);
    cost.reduction += seconds;
    cost.reduced += bytes;
    cost.reductionDelay = std::max(cost.reductionDelay, *segment - after.value_or(0));
  }

  /// Returns the segment of the last run before an op; nullopt if no run precedes the op.
  std::optional<int64_t> findLastBackward(Operation *op) {
    for (size_t i = indices.lookup(op); i-- > 0;)
      if (auto run = dyn_cast<rank::RunOp>(ops[i]); run && run.getSegment())
        return int64_t(*run.getSegment());
    return std::nullopt;
  }

  /// Finds the values that are summed over all coordinates of a pipeline: accumulators, and sums
  /// over all parameters, such as the norm of the gradients.
  void addSums() {
    for (auto variable : module.getOps<ps::VariableOp>())
      if (variable.getKind() == ps::VariableKind::Accumulator &&
          usedByModel.contains(variable.getSymName()))
        table.sums.push_back(getBytes(variable));
    // In a chain of dependent runs of the update, the first and the last run belong to a single
    // parameter. Each run between them adds values of several parameters, such as the norm.
    DenseMap<Operation *, unsigned> depths;
    unsigned deepest = 0;
    for (Operation *op : ops) {
      unsigned &depth = depths[op];
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && isPartOfUpdate(producer))
          depth = std::max(depth, depths.lookup(producer) + unsigned(isa<rank::RunOp>(producer)));
      deepest = isa<rank::RunOp>(op) ? std::max(deepest, depth) : deepest;
    }
    for (unsigned depth = 1; depth < deepest; ++depth)
      table.sums.push_back(sizeof(float));
  }
  static bool isPartOfUpdate(Operation *op) {
    return getPhase(op) == ps::Phase::Update || isa<rank::StartOp>(op);
  }

  /// Finds the values that forward keeps for backward, and the values that other segments use.
  void addValues() {
    for (Operation *op : ops) {
      auto run = dyn_cast<rank::RunOp>(op);
      if (!run || !run.getSegment())
        continue;
      for (Value result : run.getResults())
        if (getPhase(run) == ps::Phase::Forward)
          addValue(*run.getSegment(), result);
        else if (getPhase(run) == ps::Phase::BackwardInput)
          addDeferred(*run.getSegment(), result);
    }
  }
  void addDeferred(int64_t segment, Value value) {
    if (llvm::any_of(value.getUsers(), [](Operation *user) {
          return isa<rank::RunOp>(user) && getPhase(user) == ps::Phase::BackwardWeight;
        }))
      at(segment).deferred += double(ps::getByteSize(value.getType()));
  }
  /// Returns true if a value, or a view of it, is an output of the step (`--keep-outputs`).
  static bool isOutput(Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      return isa<rank::OutputOp>(user) || (ir::isView(user) && isOutput(user->getResult(0)));
    });
  }
  void addValue(int64_t producer, Value value) {
    double bytes = double(ps::getByteSize(value.getType()));
    int64_t lastForward = producer;
    std::optional<int64_t> saver;
    size_t end = 0;
    for (Operation *user : value.getUsers()) {
      auto run = dyn_cast<rank::RunOp>(user);
      if (!run || !run.getSegment())
        continue;
      if (getPhase(run) == ps::Phase::Forward) {
        lastForward = std::max(lastForward, int64_t(*run.getSegment()));
        continue;
      }
      saver = std::max(saver.value_or(0), int64_t(*run.getSegment()));
      end = std::max(end, indices.lookup(run));
    }
    for (int64_t segment = producer; segment < lastForward; ++segment)
      at(segment).boundary += bytes;
    if (isOutput(value)) {
      at(producer).kept += bytes;
      saved.push_back({bytes, indices.lookup(value.getDefiningOp()), ops.size()});
      return;
    }
    if (!saver)
      return;
    at(*saver).saved += bytes;
    addDeferred(*saver, value);
    saved.push_back({bytes, indices.lookup(value.getDefiningOp()), end});
  }

  /// Returns the reduced gradients of a program.
  std::vector<Saved> listReduced() {
    std::vector<Saved> reduced;
    for (Operation *op : ops)
      if (auto start = dyn_cast<rank::StartOp>(op))
        for (Value result : start.getResults()) {
          size_t end = indices.lookup(op);
          bool isGathered = false; // true for a gathered parameter, which is not a gradient
          for (Operation *user : result.getUsers()) {
            auto run = dyn_cast<rank::RunOp>(user);
            isGathered |= run && run.getSegment();
            end = std::max(end, indices.lookup(user));
          }
          if (!isGathered)
            reduced.push_back({double(ps::getByteSize(result.getType())), indices.lookup(op), end});
        }
    return reduced;
  }

  /// Sets `transient` of each segment: the bytes in use while its runs execute, minus variables,
  /// saved values, kept outputs and reduced gradients.
  void addTransients() {
    std::vector<Saved> others = listReduced();
    llvm::append_range(others, saved);
    if (!facts.peaks)
      facts.peaks = memory::findPeaks(module, "step"); // `ops` are those of the step
    if (facts.peaks->empty())
      return;
    const memory::MemoryPeak &peak = facts.peaks->front();
    for (size_t i = 0; i < std::min(ops.size(), peak.inUse.size()); ++i) {
      auto run = dyn_cast<rank::RunOp>(ops[i]);
      if (!run || !run.getSegment())
        continue;
      double bytes = double(peak.inUse[i] - peak.variableBytes);
      for (const Saved &value : others)
        if (value.begin <= i && i <= value.end)
          bytes -= value.bytes;
      SegmentCost &cost = at(*run.getSegment());
      cost.transient = std::max(cost.transient, bytes);
    }
  }

  /// Inserts the segments that ps-shrink-repeats removed.
  void repeat() {
    auto repeats = module->getAttrOfType<DictionaryAttr>(kRepeatsMark);
    if (!repeats)
      return;
    auto name = repeats.getAs<StringAttr>("parameter");
    auto count = repeats.getAs<IntegerAttr>("count");
    for (auto variable : module.getOps<ps::VariableOp>()) {
      std::optional<int64_t> segment = findHome(variable.getSymName());
      if (!segment || variable.getDisplayName() != name.getValue())
        continue;
      auto position = table.segments.begin() + *segment;
      SegmentCost cost = *position;
      table.segments.insert(position, size_t(count.getInt()), cost);
      for (TiedParameter &tied : table.tied)
        for (int64_t &user : tied.segments)
          user += user > *segment ? count.getInt() : 0;
      return;
    }
  }

  ModuleOp module;
  SymbolTable symbols;
  ps::MeshOp mesh;
  ir::OpTimes times;
  RunTimes runs;
  TableFacts &facts;
  std::vector<Operation *> ops;
  DenseMap<Operation *, size_t> indices;
  llvm::StringSet<> usedByModel;            ///< symbols of variables that forward and backward use
  llvm::StringMap<std::set<int64_t>> users; ///< segments that use a parameter, by its symbol
  llvm::StringMap<size_t> tied;             ///< indices in `table.tied`, by symbol
  std::vector<Saved> saved;
  ClassTable table;
};

} // namespace

llvm::Expected<ClassTable> readClassTable(ModuleOp module, const Cluster &cluster,
                                          ArrayRef<ir::AxisSize> axes, TableFacts &facts) {
  for (auto program : module.getOps<rank::ProgramOp>())
    if (program.getEntry() == "step")
      return TableReader(module, program, cluster, axes, facts).read();
  return llvm::createStringError("the module has no training step");
}

} // namespace parashard::planner
