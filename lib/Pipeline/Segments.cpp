// Assigns segments from module paths, origins and dataflow.
#include "lib/Pipeline/Segments.h"
#include "lib/IR/Cloneable.h"
#include "lib/IR/ModulePath.h"
#include "lib/IR/Stages.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::pipeline {

Repetition findRepetition(ArrayRef<unsigned> classes, int64_t minUnit) {
  Repetition best;
  int64_t n = classes.size();
  for (int64_t unit = minUnit; 2 * unit <= n; ++unit) {
    // Counts the positions directly before i whose class equals the class `unit` positions later.
    // Example: ABABA with unit 2 gives 3 at i = 3.
    int64_t run = 0;
    for (int64_t i = 0; i + unit <= n; ++i) {
      bool equal = i + unit < n && classes[i] == classes[i + unit];
      if (equal) {
        ++run;
        continue;
      }
      int64_t count = run / unit + 1;
      if (run >= unit && count * unit > best.count * best.unit)
        best = {i - run, unit, count};
      run = 0;
    }
  }
  return best;
}

namespace {
class Assigner {
public:
  explicit Assigner(func::FuncOp function)
      : block(function.getBody().front()), cloneable(findCloneableOps(function)) {
    for (Operation &op : block.without_terminator())
      (isBackward(&op) ? backward : forward).push_back(&op);
    findStateOps();
  }

  int64_t run() {
    assignForward();
    assignStateOps();
    assignCloneables(false);
    assignBackward();
    assignCloneables(true);
    return compress();
  }

private:
  std::optional<int64_t> get(Value value, bool ofBackward) const {
    Operation *producer = value.getDefiningOp();
    if (!producer || cloneable.contains(producer) || isBackward(producer) != ofBackward)
      return std::nullopt;
    auto it = segments.find(producer);
    return it == segments.end() ? std::nullopt : std::optional(it->second);
  }

  void assignForward() {
    bool hasBlocks = llvm::any_of(forward, [](Operation *op) {
      auto path = getModulePath(op->getLoc());
      return path && !getBlockOfPath(*path).empty();
    });
    DenseMap<Operation *, int64_t> wanted = hasBlocks ? numberByPath() : numberByRepetition();
    for (Operation *op : forward) {
      if (cloneable.contains(op) || stateOps.contains(op))
        continue;
      int64_t segment = wanted.lookup(op);
      for (Value operand : op->getOperands())
        segment = std::max(segment, get(operand, false).value_or(0));
      segments[op] = segment;
    }
  }

  /// Finds the state ops: writes, and ops that depend only on written variables and constants (such
  /// as counters and the decay of running statistics). The position of a state op in the function
  /// does not determine its segment.
  void findStateOps() {
    for (Operation *op : forward) {
      auto producers =
          llvm::map_range(op->getOperands(), [](Value operand) { return operand.getDefiningOp(); });
      bool ofState = llvm::all_of(producers, [&](Operation *producer) {
        return producer && (cloneable.contains(producer) || stateOps.contains(producer));
      });
      bool reads = isa<ReadOp>(op) || llvm::any_of(producers, [&](Operation *producer) {
                     return producer && stateOps.contains(producer);
                   });
      if (!cloneable.contains(op) && (isa<WriteOp>(op) || (ofState && reads)))
        stateOps.insert(op);
    }
  }

  /// Assigns a state op to the earliest segment that uses it. Assigns a write to the segment that
  /// produces its value. If no segment produces the value, assigns the write to a segment that
  /// reads the variable, else to the segment of the block in the op's path, else to segment 0.
  void assignStateOps() {
    assignFromUsers();
    DenseMap<Attribute, int64_t> readers;
    for (Operation *op : forward)
      if (auto read = dyn_cast<ReadOp>(op); read && segments.contains(op))
        readers.try_emplace(read.getVariableAttr(), segments[op]);
    for (Operation *op : forward) {
      auto write = dyn_cast<WriteOp>(op);
      if (!write)
        continue;
      auto path = getModulePath(op->getLoc());
      auto reader = readers.find(write.getVariableAttr());
      if (std::optional<int64_t> made = get(write.getValue(), false))
        segments[op] = *made;
      else if (reader != readers.end())
        segments[op] = reader->second;
      else
        segments[op] = path ? numbers.lookup(getBlockOfPath(*path)) : 0;
    }
    assignFromUsers();
    for (Operation *op : forward)
      if (stateOps.contains(op))
        segments.try_emplace(op, 0); // an op without users
  }

  /// Assigns each state op to the earliest segment of its forward users, if they have segments.
  void assignFromUsers() {
    for (Operation *op : llvm::reverse(forward)) {
      if (!stateOps.contains(op) || segments.contains(op) || isa<WriteOp>(op))
        continue;
      std::optional<int64_t> first;
      for (Operation *user : op->getUsers())
        if (auto known = segments.find(user); known != segments.end() && !isBackward(user))
          first = std::min(first.value_or(known->second), known->second);
      if (first)
        segments[op] = *first;
    }
  }

  /// Finds ops that depend only on inputs and constants (masks, positions). Such ops never begin a
  /// layer, wherever they are in the function.
  DenseSet<Operation *> findEarlyOps() const {
    DenseSet<Operation *> early;
    DenseSet<Operation *> ofVariables; ///< cloneable ops that depend on a variable
    for (Operation *op : forward) {
      bool reads = isa<ReadOp>(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
                     return ofVariables.contains(operand.getDefiningOp());
                   });
      if (reads && cloneable.contains(op))
        ofVariables.insert(op);
      bool known = !reads && isPure(op) && !stateOps.contains(op) &&
                   llvm::all_of(op->getOperands(), [&](Value operand) {
                     Operation *producer = operand.getDefiningOp();
                     return !producer || cloneable.contains(producer) || early.contains(producer);
                   });
      if (known && !cloneable.contains(op))
        early.insert(op);
    }
    if (ofVariables.empty()) // in a model without variables, all ops would be early
      early.clear();
    return early;
  }

  /// Numbers segments by module path, in order of first appearance. The ops between two blocks also
  /// get a number. Early ops (`findEarlyOps`) belong to the only segment that uses them, or to
  /// segment 0 if several segments do. Early ops that no other op uses belong to the last segment.
  /// If the first op that is not early is in a block, segment 0 contains only early ops.
  DenseMap<Operation *, int64_t> numberByPath() {
    DenseMap<Operation *, int64_t> wanted;
    DenseSet<Operation *> early = findEarlyOps();
    auto begin = llvm::find_if(forward, [&](Operation *op) {
      return !cloneable.contains(op) && !stateOps.contains(op) && !early.contains(op);
    });
    auto first = begin == forward.end() ? std::nullopt : getModulePath((*begin)->getLoc());
    bool beginsWithBlock = first && !getBlockOfPath(*first).empty();
    int64_t last = !early.empty() && beginsWithBlock ? 0 : -1, current = -1;
    bool inBlock = true;
    for (Operation *op : forward) {
      if (cloneable.contains(op) || stateOps.contains(op) || early.contains(op))
        continue;
      auto path = getModulePath(op->getLoc());
      StringRef name = path ? getBlockOfPath(*path) : StringRef();
      if (!name.empty()) {
        auto [it, isNew] = numbers.try_emplace(name, last + 1);
        last += isNew;
        current = it->second;
        inBlock = true;
      } else if ((path && inBlock) || current < 0) {
        current = ++last;
        inBlock = false;
      }
      wanted[op] = current;
    }
    // Example: ops on labels move to the segment of the loss, which alone uses their results.
    for (Operation *op : llvm::reverse(forward)) {
      if (!early.contains(op))
        continue;
      llvm::SmallSetVector<int64_t, 2> users;
      for (Operation *user : op->getUsers())
        if (!isBackward(user) && !user->hasTrait<OpTrait::IsTerminator>())
          users.insert(wanted.lookup(user));
      wanted[op] = users.empty() ? std::max<int64_t>(last, 0) : users.size() == 1 ? users[0] : 0;
    }
    return wanted;
  }

  /// Numbers segments without module paths. The blocks are the instances of the sequence of ops
  /// that repeats over the longest stretch (`findRepetition`).
  DenseMap<Operation *, int64_t> numberByRepetition() {
    SmallVector<Operation *> ops;
    SmallVector<unsigned> classes;
    llvm::DenseMap<size_t, unsigned> known;
    for (Operation *op : forward) {
      if (cloneable.contains(op) || stateOps.contains(op))
        continue;
      llvm::hash_code hash = llvm::hash_combine(op->getName(), op->getPropertiesAsAttribute());
      for (Type type : op->getOperandTypes())
        hash = llvm::hash_combine(hash, type);
      ops.push_back(op);
      classes.push_back(known.try_emplace(size_t(hash), known.size()).first->second);
    }
    constexpr int64_t minUnit = 4; // a linear layer alone is not worth a segment
    Repetition found = findRepetition(classes, minUnit);
    DenseMap<Operation *, int64_t> wanted;
    int64_t before = found.first > 0;
    for (auto [i, op] : llvm::enumerate(ops)) {
      int64_t offset = int64_t(i) - found.first;
      if (found.unit == 0 || offset < 0)
        wanted[op] = 0;
      else
        wanted[op] = before + std::min(offset / found.unit, found.count);
    }
    return wanted;
  }

  /// Returns the forward op whose `ps.origin` equals that of a backward op, or null. A forward op
  /// without `ps.origin` is identified by its index.
  Operation *getOrigin(Operation *op) {
    auto origin = op->getAttrOfType<IntegerAttr>(kOriginMark);
    if (!origin)
      return nullptr;
    if (forwardByOrigin.empty())
      for (auto [i, f] : llvm::enumerate(forward)) {
        auto mark = f->getAttrOfType<IntegerAttr>(kOriginMark);
        forwardByOrigin.try_emplace(mark ? mark.getInt() : int64_t(i), f);
      }
    return forwardByOrigin.lookup(origin.getInt());
  }

  /// Returns the segment of the forward op to which the backward op `op` belongs, but at most
  /// `latest`. Returns `latest` if `op` has no forward op. If the forward op is cloneable, returns
  /// the latest segment up to `latest` that uses its result.
  int64_t getOriginSegment(Operation *op, int64_t latest) {
    Operation *origin = getOrigin(op);
    auto it = segments.find(origin);
    if (it == segments.end())
      return latest;
    int64_t segment = it->second;
    if (cloneable.contains(origin))
      for (Operation *user : origin->getUsers())
        if (auto of = segments.find(user);
            of != segments.end() && !isBackward(user) && of->second <= latest)
          segment = std::max(segment, of->second);
    return std::min(segment, latest);
  }

  /// Returns true for a sum of cotangents that all come from later segments. Computing the sum in
  /// the earliest of these segments sends one value instead of several.
  bool isSumOfLaterCotangents(Operation *op, int64_t segment) const {
    return isa<AddOp>(op) && llvm::all_of(op->getOperands(), [&](Value operand) {
             return get(operand, true).value_or(segment) > segment;
           });
  }

  void assignBackward() {
    int64_t last = 0;
    for (auto &[op, segment] : segments)
      last = std::max(last, segment);
    for (Operation *op : backward) {
      if (cloneable.contains(op))
        continue;
      int64_t latest = last;
      for (Value operand : op->getOperands())
        latest = std::min(latest, get(operand, true).value_or(last));
      int64_t segment = getOriginSegment(op, latest);
      segments[op] = isSumOfLaterCotangents(op, segment) ? latest : segment;
    }
  }

  /// Assigns each cloneable op to the first segment, in execution order, that uses its result.
  void assignCloneables(bool ofBackward) {
    for (Operation *op : llvm::reverse(ofBackward ? backward : forward)) {
      if (!cloneable.contains(op))
        continue;
      std::optional<int64_t> first;
      for (Operation *user : op->getUsers()) {
        auto it = segments.find(user);
        if (it == segments.end() || isBackward(user) != ofBackward)
          continue;
        bool earlier = !first || (ofBackward ? it->second > *first : it->second < *first);
        first = earlier ? it->second : *first;
      }
      segments[op] = first.value_or(0);
    }
  }

  /// Renumbers segments without gaps, and keeps their order. Returns the number of segments.
  int64_t compress() {
    SmallVector<int64_t> used;
    for (auto &[op, segment] : segments)
      used.push_back(segment);
    llvm::sort(used);
    used.erase(llvm::unique(used), used.end());
    Builder builder(block.getParentOp()->getContext());
    for (auto &[op, segment] : segments)
      op->setAttr(kSegmentMark,
                  builder.getI64IntegerAttr(llvm::lower_bound(used, segment) - used.begin()));
    return used.size();
  }

  Block &block;
  DenseSet<Operation *> cloneable;
  SmallVector<Operation *> forward, backward;
  DenseMap<Operation *, int64_t> segments;
  DenseMap<int64_t, Operation *> forwardByOrigin;
  DenseSet<Operation *> stateOps;
  llvm::StringMap<int64_t> numbers; ///< segments of blocks, by module path
};
} // namespace

int64_t assignSegments(func::FuncOp function) { return Assigner(function).run(); }

} // namespace parashard::pipeline
