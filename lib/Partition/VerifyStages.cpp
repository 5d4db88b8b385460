// Checks that values match between stage functions, and executes the functions symbolically to find
// deadlocks.
#include "lib/Partition/VerifyStages.h"
#include "lib/IR/Stages.h"
#include "lib/Partition/PipelineAxis.h"
#include "llvm/ADT/MapVector.h"
#include <map>

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::partition {
namespace {

/// Verifies the stage functions of one entry.
class EntryVerifier {
public:
  EntryVerifier(StringRef entry, ModuleOp module)
      : entry(entry), coordinates(getPipelineSize(module)), axis(getPipelineAxis(module)),
        count(isByCoordinate(entry) ? coordinates : getStages(module).getCount()) {}

  LogicalResult add(func::FuncOp function) {
    auto mark = function->getAttrOfType<IntegerAttr>(kStageMark);
    int64_t number = mark ? mark.getInt() : -1;
    if (number < 0 || number >= count)
      return function.emitOpError("(partitioned_c7) belongs to ")
             << describe(number) << "; expected a number below " << count;
    auto [known, isNew] = functions.try_emplace(number, function);
    if (isNew)
      return success();
    InFlightDiagnostic error = function.emitOpError("(partitioned_c7) is a second function of ")
                               << describe(number) << " for \"" << entry << "\"";
    error.attachNote(known->second.getLoc()) << "first function here";
    return error;
  }

  LogicalResult verify() {
    for (int64_t number = 0; number < count; ++number)
      if (!functions.count(number))
        return functions.begin()->second.emitOpError("(partitioned_c7) belongs to entry \"")
               << entry << "\", which has no function for " << describe(number)
               << "; the entry needs " << count << " functions, one per " << getNoun();
    for (auto &[number, function] : functions)
      if (failed(collectResults(function)) || failed(collectReductions(number, function)))
        return failure();
    for (auto &[number, function] : functions)
      if (failed(verifyArguments(function)) || failed(verifyOrderOfPhases(function)))
        return failure();
    for (auto &[key, reduction] : reductions)
      if (failed(verifyReduction(key.first, reduction)))
        return failure();
    return runToEnds();
  }

private:
  /// A value that is sent to other stages: the function that returns the value, and the value's
  /// index among the function's results.
  struct Sent {
    func::FuncOp function;
    unsigned result;
  };
  using Members = std::vector<int64_t>;
  using Reduction = std::map<int64_t, AllReduceOp>; ///< by coordinate

  StringRef getNoun() const { return isByCoordinate(entry) ? "pipeline coordinate" : "stage"; }
  std::string describe(int64_t number) const { return (getNoun() + " " + Twine(number)).str(); }

  LogicalResult collectResults(func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      auto value = function.getResultAttrOfType<IntegerAttr>(i, kValueMark);
      if (!value)
        continue;
      auto [known, isNew] = sent.try_emplace(value.getInt(), Sent{function, i});
      if (isNew)
        continue;
      InFlightDiagnostic error = function.emitOpError("(partitioned_c8) sends value ")
                                 << value.getInt() << " as result " << i
                                 << ", but another result already has this number";
      error.attachNote(known->second.function.getLoc()) << "first sent here";
      return error;
    }
    return success();
  }

  LogicalResult verifyArguments(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments()) {
      auto value = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kValueMark);
      if (!value)
        continue;
      auto known = sent.find(value.getInt());
      if (known == sent.end() || known->second.function == function)
        return function.emitOpError("(partitioned_c8) receives value ")
               << value.getInt() << " as argument " << argument.getArgNumber()
               << ", but no other stage sends it";
      Type type = known->second.function.getFunctionType().getResult(known->second.result);
      if (type == argument.getType())
        continue;
      InFlightDiagnostic error = function.emitOpError("(partitioned_c8) receives value ")
                                 << value.getInt() << " as " << argument.getType()
                                 << ", but it is sent as " << type;
      error.attachNote(known->second.function.getLoc()) << "sent here";
      return error;
    }
    return success();
  }

  //===--- phases ---------------------------------------------------------===//

  /// Returns the position of an op's phase among the phases of a micro-batch: 1 for
  /// `backward_input`, 2 for `backward_weight`, and 0 for `forward` and all other phases. A
  /// schedule may run the phases of one micro-batch at different times.
  static int getPhasePosition(Operation *op) {
    auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
    if (phase && phase.getValue() == Phase::BackwardInput)
      return 1;
    return phase && phase.getValue() == Phase::BackwardWeight ? 2 : 0;
  }

  /// Returns the position of the phase that computes a value, in this stage or another stage.
  /// Returns 0 for inputs.
  int getPhasePosition(Value value) {
    if (Operation *op = value.getDefiningOp())
      return getPhasePosition(op);
    auto argument = cast<BlockArgument>(value);
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    auto mark = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kValueMark);
    if (!mark)
      return 0;
    Sent source = sent.at(mark.getInt());
    Operation *end = source.function.getBody().front().getTerminator();
    Operation *producer = end->getOperand(source.result).getDefiningOp();
    return producer ? getPhasePosition(producer) : 0;
  }

  LogicalResult verifyOrderOfPhases(func::FuncOp function) {
    for (Operation &op : function.getBody().front().without_terminator()) {
      int position = getPhasePosition(&op);
      if (position > 0 && entry != "micro_batch")
        return op.emitOpError("(partitioned_c13) belongs to the backward, which entry \"")
               << entry << "\" does not have";
      for (Value operand : op.getOperands())
        if (getPhasePosition(operand) > position)
          return op.emitOpError("(partitioned_c13) uses a value of a later phase; the order is "
                                "forward, backward_input, backward_weight");
    }
    return success();
  }

  //===--- reductions -----------------------------------------------------===//

  LogicalResult collectReductions(int64_t coordinate, func::FuncOp function) {
    std::map<Members, int64_t> counts;
    for (auto reduce : function.getOps<AllReduceOp>()) {
      if (!isReductionOfCoordinates(reduce, axis))
        continue;
      SmallVector<int64_t> members = getReducingCoordinates(reduce);
      for (auto [i, member] : llvm::enumerate(members))
        if (member < 0 || member >= coordinates || (i && member <= members[i - 1]))
          return reduce.emitOpError("(partitioned_c9) names pipeline coordinates ")
                 << members << "; expected ascending coordinates below " << coordinates;
      if (!llvm::is_contained(members, coordinate))
        return reduce.emitOpError("(partitioned_c9) names pipeline coordinates ")
               << members << " without its own coordinate " << coordinate;
      Members key(members.begin(), members.end());
      Reduction &reduction = reductions[{key, counts[key]++}];
      reduction[coordinate] = reduce;
      joined[reduce] = &reduction;
    }
    return success();
  }

  static std::string describe(AllReduceOp reduce) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << stringifyReductionKind(reduce.getKind()) << " of ";
    if (auto name = reduce->getAttrOfType<StringAttr>(kReducedMark))
      os << "'" << name.getValue() << "', ";
    os << reduce.getType();
    return text;
  }

  /// Checks that one reduction has the same kind, type and reduced value on all members.
  LogicalResult verifyReduction(const Members &members, const Reduction &reduction) {
    AllReduceOp first = reduction.begin()->second;
    for (int64_t member : members) {
      auto known = reduction.find(member);
      if (known == reduction.end())
        return first.emitOpError("(partitioned_c9) reduces over pipeline coordinates ")
               << ArrayRef<int64_t>(members) << ", but coordinate " << member << " never joins";
      AllReduceOp other = known->second;
      if (other.getType() == first.getType() && other.getKind() == first.getKind() &&
          other->getAttr(kReducedMark) == first->getAttr(kReducedMark))
        continue;
      InFlightDiagnostic error = other.emitOpError("(partitioned_c9) is the ")
                                 << describe(other)
                                 << ", but the matching reduction of pipeline coordinate "
                                 << reduction.begin()->first << " is the " << describe(first);
      error.attachNote(first.getLoc()) << "other reduction here";
      return error;
    }
    return success();
  }

  //===--- deadlock -------------------------------------------------------===//

  /// Returns true if the next op of a stage function can run: the values that the op receives are
  /// sent, and for a reduction, all members have reached the reduction.
  bool isReady(Operation *op) {
    for (Value operand : op->getOperands()) {
      auto argument = dyn_cast<BlockArgument>(operand);
      auto function = argument ? cast<func::FuncOp>(op->getParentOp()) : func::FuncOp();
      auto value = argument
                       ? function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kValueMark)
                       : IntegerAttr();
      if (value && !isSent(sent.at(value.getInt())))
        return false;
    }
    auto reduction = joined.find(op);
    return reduction == joined.end() || llvm::all_of(*reduction->second, [&](auto &member) {
             AllReduceOp other = member.second;
             return next.at(other->getParentOp()) == other.getOperation() || hasRun(other);
           });
  }

  bool hasRun(Operation *op) {
    Operation *at = next.at(op->getParentOp());
    return !at || op->isBeforeInBlock(at);
  }
  bool isSent(Sent value) {
    Operation *end = value.function.getBody().front().getTerminator();
    Operation *producer = end->getOperand(value.result).getDefiningOp();
    return !producer || hasRun(producer);
  }

  LogicalResult runToEnds() {
    for (auto &[number, function] : functions)
      next[function] = &function.getBody().front().front();
    for (bool moved = true; moved;) {
      moved = false;
      for (auto &[number, function] : functions)
        for (Operation *&at = next[function]; at && isReady(at); moved = true)
          at = at->getNextNode();
    }
    for (auto &[number, function] : functions)
      if (Operation *at = next[function])
        return at->emitOpError("(partitioned_c10) deadlock: ")
               << describe(number) << " waits here forever: this op depends on stage functions "
               << "that wait for each other in a cycle";
    return success();
  }

  StringRef entry;
  int64_t coordinates;
  StringAttr axis;
  int64_t count; ///< number of functions
  std::map<int64_t, func::FuncOp> functions;
  std::map<int64_t, Sent> sent;
  std::map<std::pair<Members, int64_t>, Reduction> reductions; ///< by members and issue order
  llvm::DenseMap<Operation *, const Reduction *> joined;
  llvm::DenseMap<Operation *, Operation *> next; ///< next op of each function; null at its end
};
} // namespace

LogicalResult verifyStages(ModuleOp module) {
  llvm::MapVector<StringRef, EntryVerifier> entries;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(kStageMark)) {
      StringRef entry = getEntry(function);
      if (failed(entries.insert({entry, EntryVerifier(entry, module)}).first->second.add(function)))
        return failure();
    }
  for (auto &[name, entry] : entries)
    if (failed(entry.verify()))
      return failure();
  return success();
}

} // namespace parashard::partition
