// Implements ps-shrink-repeats: removes all but two of the equal blocks of a model.
#include "dialects/ps/Ps.h"
#include "lib/IR/Stages.h"
#include "lib/Pipeline/Segments.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "parashard/Planner.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::planner {
#define GEN_PASS_DEF_SHRINKREPEATSPASS
#include "lib/Planner/Passes.h.inc"

namespace {

/// The ops of one segment, in program order, without reads and constants.
struct Segment {
  SmallVector<Operation *> ops;
  DenseMap<Operation *, size_t> indices; ///< position in `ops`
};

class Shrinker {
public:
  explicit Shrinker(func::FuncOp function) : function(function) {
    pipeline::assignSegments(function);
    for (Operation &op : function.getBody().front().without_terminator()) {
      std::optional<int64_t> segment = ir::getSegment(&op);
      op.removeAttr(kSegmentMark);
      if (!segment || isLeaf(&op))
        continue;
      if (size_t(*segment) >= segments.size())
        segments.resize(size_t(*segment) + 1);
      Segment &its = segments[size_t(*segment)];
      its.indices[&op] = its.ops.size();
      its.ops.push_back(&op);
    }
  }

  void run() {
    auto [first, count] = findRepeats();
    if (count < 3)
      return;
    StringAttr parameter = findParameter(segments[first + 1]);
    if (!parameter || !canRemove(first, count))
      return;
    remove(first, count);
    eraseUnused();
    Builder b(function);
    function->getParentOfType<ModuleOp>()->setAttr(
        kRepeatsMark,
        b.getDictionaryAttr({b.getNamedAttr("count", b.getI64IntegerAttr(int64_t(count) - 2)),
                             b.getNamedAttr("parameter", parameter)}));
  }

private:
  /// Returns true for reads of variables and for constants. Equal segments may read different
  /// variables.
  static bool isLeaf(Operation *op) {
    return isa<ReadOp>(op) || op->hasTrait<OpTrait::ConstantLike>();
  }

  /// Returns the longest sequence of equal segments: the index of the first one, and their number.
  std::pair<size_t, size_t> findRepeats() const {
    std::pair<size_t, size_t> best{0, 0};
    for (size_t first = 0; first < segments.size();) {
      size_t count = 1;
      while (first + count < segments.size() &&
             areEqual(first + count - 1, first + count, count == 1))
        ++count;
      if (count > best.second && !segments[first].ops.empty())
        best = {first, count};
      first += count;
    }
    return best;
  }

  /// Returns the attributes of an op without the key of its random numbers, which no two ops share.
  static DictionaryAttr getAttributes(Operation *op) {
    NamedAttrList attributes(op->getAttrDictionary());
    attributes.erase(kKeyMark);
    return attributes.getDictionary(op->getContext());
  }

  bool areEqual(size_t before, size_t after, bool isFirst) const {
    const Segment &a = segments[before], &b = segments[after];
    if (a.ops.size() != b.ops.size())
      return false;
    for (auto [i, op] : llvm::enumerate(a.ops)) {
      Operation *other = b.ops[i];
      if (op->getName() != other->getName() || op->getResultTypes() != other->getResultTypes() ||
          getAttributes(op) != getAttributes(other) ||
          op->getNumOperands() != other->getNumOperands() || op->getNumRegions() != 0)
        return false;
      for (auto [x, y] : llvm::zip(op->getOperands(), other->getOperands()))
        if (!areEqual(x, before, y, after, isFirst))
          return false;
    }
    return true;
  }

  /// Returns true if segment `before` uses `x` in the same way as segment `after` uses `y`. This
  /// holds if both are the same value, or equal leaves (reads or constants). It also holds in two
  /// cases:
  /// - `after` produces `y`, and `before` produces `x` at the same position, that is, with the same
  ///   op index in the segment and the same result number.
  /// - `before` produces `y`, and segment `before` - 1 produces `x` at the same position. With
  ///   `isFirst`, `before` is the first of the equal segments, and `x` may be any value that
  ///   `before` does not produce.
  bool areEqual(Value x, size_t before, Value y, size_t after, bool isFirst) const {
    if (x == y)
      return true;
    Operation *p = x.getDefiningOp(), *q = y.getDefiningOp();
    if (!q || x.getType() != y.getType())
      return false;
    if (p && (isLeaf(p) || isLeaf(q)))
      return areEqualLeaves(p, q);
    auto find = [](const Segment &segment,
                   Value value) -> std::optional<std::pair<size_t, unsigned>> {
      auto found = segment.indices.find(value.getDefiningOp());
      if (found == segment.indices.end())
        return std::nullopt;
      return std::pair(found->second, cast<OpResult>(value).getResultNumber());
    };
    if (auto position = find(segments[after], y))
      return p && find(segments[before], x) == position;
    auto position = find(segments[before], y);
    if (!position)
      return false;
    return isFirst ? !p || !segments[before].indices.contains(p)
                   : p && find(segments[before - 1], x) == position;
  }

  bool areEqualLeaves(Operation *p, Operation *q) const {
    if (p->getName() != q->getName())
      return false;
    if (!isa<ReadOp>(p))
      return p->getAttrDictionary() == q->getAttrDictionary();
    VariableOp a = getVariable(p), b = getVariable(q);
    return a && b && a.getKind() == b.getKind() && a.getType() == b.getType() &&
           a.getFrozen() == b.getFrozen();
  }

  VariableOp getVariable(Operation *read) const {
    auto symbol = cast<ReadOp>(read).getVariableAttr();
    return symbol ? SymbolTable::lookupNearestSymbolFrom<VariableOp>(read, symbol) : VariableOp();
  }

  /// Returns the name of a parameter that only this segment uses.
  StringAttr findParameter(const Segment &segment) const {
    for (Operation *op : segment.ops)
      for (Value operand : op->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (!producer || !isa<ReadOp>(producer))
          continue;
        VariableOp variable = getVariable(producer);
        if (variable && variable.getKind() == VariableKind::Parameter &&
            llvm::all_of(producer->getUsers(),
                         [&](Operation *user) { return segment.indices.contains(user); }))
          return StringAttr::get(op->getContext(), variable.getDisplayName());
      }
    return nullptr;
  }

  /// Returns true if ops after the equal segments use only results of the first and the last of
  /// these segments.
  bool canRemove(size_t first, size_t count) const {
    DenseMap<Operation *, size_t> homes;
    for (auto [number, segment] : llvm::enumerate(segments))
      for (Operation *op : segment.ops)
        homes[op] = number;
    size_t last = first + count - 1;
    for (size_t number = first + 1; number < last; ++number)
      for (Operation *op : segments[number].ops)
        for (Operation *user : op->getUsers())
          if (auto home = homes.find(user); home == homes.end() || home->second > last)
            return false;
    return true;
  }

  void remove(size_t first, size_t count) {
    const Segment &kept = segments[first + 1], &last = segments[first + count - 1];
    for (auto [op, replacement] : llvm::zip(last.ops, kept.ops))
      op->replaceUsesWithIf(replacement->getResults(),
                            [&](OpOperand &use) { return !last.indices.contains(use.getOwner()); });
    for (size_t number = first + count; number-- > first + 2;)
      for (Operation *op : llvm::reverse(segments[number].ops)) {
        op->dropAllUses();
        op->erase();
      }
  }

  /// Erases reads and constants that only removed ops used, and then parameters without reads.
  void eraseUnused() {
    for (Operation &op :
         llvm::make_early_inc_range(function.getBody().front().without_terminator()))
      if (isLeaf(&op) && op.use_empty())
        op.erase();
    auto module = function->getParentOfType<ModuleOp>();
    llvm::DenseSet<StringAttr> used;
    if (std::optional<SymbolTable::UseRange> uses =
            SymbolTable::getSymbolUses(&module.getBodyRegion()))
      for (SymbolTable::SymbolUse use : *uses)
        used.insert(use.getSymbolRef().getRootReference());
    for (auto variable : llvm::make_early_inc_range(module.getOps<VariableOp>()))
      if (variable.getKind() == VariableKind::Parameter &&
          !used.contains(variable.getSymNameAttr()))
        variable.erase();
  }

  func::FuncOp function;
  std::vector<Segment> segments;
};

struct ShrinkRepeatsPass : impl::ShrinkRepeatsPassBase<ShrinkRepeatsPass> {
  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (forward && forward.getBody().hasOneBlock())
      Shrinker(forward).run();
  }
};

} // namespace
} // namespace parashard::planner
