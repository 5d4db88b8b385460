// Finds the inputs that are labels or token ids, their ranges, and whether the model shifts its
// labels.
#include "dialects/ps/Entries.h"
#include "lib/Import/Recognize/Matching.h"
#include "parashard/Import.h"
#include "llvm/ADT/SetVector.h"
#include <set>

using namespace mlir;

namespace parashard::import {
namespace recognize {
namespace {

//===----------------------------------------------------------------------===//
// Tracing an element back to inputs
//===----------------------------------------------------------------------===//

constexpr int64_t kAny = -1; ///< an index that may have several values

/// One index per dim of a tensor, or `kAny`.
using Indices = SmallVector<int64_t>;

/// Converts a row-major offset to one index per dim.
Indices unflatten(int64_t number, ArrayRef<int64_t> shape) {
  Indices indices(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    indices[d] = number % shape[d];
    number /= shape[d];
  }
  return indices;
}

/// Traces one element of a value back to the function's inputs. Converts indices of an op's result
/// to indices of its operands by the factors of the op's sharding rule.
class Tracer {
public:
  /// Returns the elements of inputs on which the element of `value` at `indices` depends. Each pair
  /// is an input and the indices of one of its elements. Inputs whose indices are all unknown are
  /// omitted.
  std::vector<std::pair<BlockArgument, Indices>> trace(Value value, Indices indices) {
    go(value, std::move(indices));
    while (!todo.empty()) {
      auto [next, at] = std::move(todo.back());
      todo.pop_back();
      step(next, at);
    }
    return std::move(found);
  }

private:
  void go(Value value, Indices indices) {
    bool known = llvm::any_of(indices, [](int64_t index) { return index != kAny; });
    if (known && seen.insert({value.getAsOpaquePointer(), {indices.begin(), indices.end()}}).second)
      todo.emplace_back(value, std::move(indices));
  }

  void step(Value value, const Indices &indices) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      found.emplace_back(argument, indices);
      return;
    }
    Operation *op = value.getDefiningOp();
    if (auto slice = dyn_cast<ps::SliceOp>(op))
      return throughSlice(slice, indices);
    if (auto pad = dyn_cast<ps::PadOp>(op))
      return throughPad(pad, indices);
    if (auto concat = dyn_cast<ps::ConcatOp>(op))
      return throughConcat(concat, indices);
    if (auto ruled = dyn_cast<ps::ShardingOpInterface>(op))
      throughRule(op, ruled.getShardingRule(), cast<OpResult>(value).getResultNumber(), indices);
  }

  void throughSlice(ps::SliceOp slice, Indices indices) {
    for (auto [d, index] : llvm::enumerate(indices))
      if (index != kAny)
        index = slice.getStarts()[d] + index * slice.getStrides()[d];
    go(slice.getOperand(), indices);
  }

  void throughPad(ps::PadOp pad, Indices indices) {
    ArrayRef<int64_t> shape = getShape(pad.getOperand());
    for (auto [d, index] : llvm::enumerate(indices)) {
      if (index == kAny)
        continue;
      int64_t from = index - pad.getLow()[d], stride = pad.getStrides()[d];
      if (from < 0 || from % stride != 0 || from / stride >= shape[d])
        return; // a zero of the padding
      index = from / stride;
    }
    go(pad.getOperand(), indices);
  }

  void throughConcat(ps::ConcatOp concat, Indices indices) {
    int64_t &index = indices[concat.getDim()];
    for (Value operand : concat.getOperands()) {
      int64_t size = getShape(operand)[concat.getDim()];
      if (index == kAny || index < size) {
        go(operand, indices);
        if (index != kAny)
          return;
      } else {
        index -= size;
      }
    }
  }

  void throughRule(Operation *op, const ps::ShardingRule &rule, unsigned result,
                   const Indices &indices) {
    SmallVector<int64_t> factors(rule.factors.size(), kAny);
    for (auto [dim, index] : llvm::zip_equal(rule.results[result], indices)) {
      int64_t rest = index;
      for (unsigned number : llvm::reverse(dim)) {
        const ps::RuleFactor &factor = rule.factors[number];
        if (index == kAny || factor.size == 0)
          break;
        if (factor.kind != ps::RuleFactor::Kind::Whole && !factor.isCoupled)
          factors[number] = rest % factor.size;
        rest /= factor.size;
      }
    }
    for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands)) {
      Indices at;
      for (const ps::DimFactors &dim : dims) {
        int64_t index = 0;
        for (unsigned factor : dim)
          index = index == kAny || factors[factor] == kAny
                      ? kAny
                      : index * rule.factors[factor].size + factors[factor];
        at.push_back(index);
      }
      go(operand, at);
    }
  }

  std::vector<std::pair<Value, Indices>> todo;
  std::set<std::pair<void *, std::vector<int64_t>>> seen;
  std::vector<std::pair<BlockArgument, Indices>> found;
};

//===----------------------------------------------------------------------===//
// The shift of labels
//===----------------------------------------------------------------------===//

bool isTokens(BlockArgument argument) {
  auto type = dyn_cast<RankedTensorType>(argument.getType());
  return type && type.getRank() == 2 && type.getElementType().isInteger() &&
         !type.getElementType().isInteger(1);
}

bool isKnown(const Indices &indices) { return !llvm::is_contained(indices, kAny); }

/// Returns the position of a row's label, minus the position of the last token that the row's
/// logits depend on. Returns nullopt if the label is not an element of an input (padding), or if
/// the logits do not depend on tokens. Example: 1 for a model that compares logits[:, t] with
/// labels[:, t + 1].
std::optional<int64_t> getShift(ps::CrossEntropyOp loss, int64_t row) {
  Indices at = unflatten(row, getShape(loss.getLabels()));
  std::optional<std::pair<BlockArgument, Indices>> label;
  for (auto &[argument, indices] : Tracer().trace(loss.getLabels(), at))
    if (isTokens(argument) && isKnown(indices))
      label = {argument, indices};
  if (!label)
    return std::nullopt;
  at.push_back(kAny); // the classes
  std::optional<int64_t> last;
  for (auto &[argument, indices] : Tracer().trace(loss.getLogits(), at))
    if (argument != label->first && isTokens(argument) && isKnown(indices) &&
        indices[0] == label->second[0])
      last = std::max(last.value_or(0), indices[1]);
  return last ? std::optional(label->second[1] - *last) : std::nullopt;
}

/// Computes the shift of three rows of each loss. Returns the value of `ps.labels` if all shifts
/// are 0, or all are 1. Otherwise, returns nullopt. Ignores rows without a shift.
std::optional<StringRef> nameShift(ArrayRef<ps::CrossEntropyOp> losses) {
  std::optional<int64_t> shift;
  for (ps::CrossEntropyOp loss : losses) {
    int64_t rows = getType(loss.getLabels()).getNumElements();
    for (int64_t row : {int64_t(0), rows / 3, rows / 2}) {
      std::optional<int64_t> found = row < rows ? getShift(loss, row) : std::nullopt;
      if (found && shift && *found != *shift)
        return std::nullopt;
      shift = found ? found : shift;
    }
  }
  if (shift == 0)
    return kLabelsNext;
  return shift == 1 ? std::optional<StringRef>(kLabelsSame) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

/// Returns the inputs whose elements `value` contains. Looks through movement ops and casts.
llvm::SmallSetVector<BlockArgument, 2> getSources(Value value) {
  llvm::SmallSetVector<Value, 8> seen;
  llvm::SmallSetVector<BlockArgument, 2> sources;
  seen.insert(value);
  for (size_t i = 0; i < seen.size(); ++i) {
    Value next = seen[i];
    if (auto argument = dyn_cast<BlockArgument>(next))
      sources.insert(argument);
    else if (isa<ps::ReshapeOp, ps::TransposeOp, ps::BroadcastOp, ps::SliceOp, ps::PadOp,
                 ps::ConcatOp, ps::ConvertOp>(next.getDefiningOp()))
      for (Value operand : next.getDefiningOp()->getOperands())
        if (getType(operand).getElementType().isInteger())
          seen.insert(operand);
  }
  return sources;
}

/// Sets the attributes on the inputs of one function.
class InputMarks {
public:
  explicit InputMarks(func::FuncOp function) : function(function), b(function.getContext()) {}

  void addIndices(Value indices, int64_t rows) {
    for (BlockArgument argument : getSources(indices)) {
      limit(argument, rows);
      indexing.insert(argument);
    }
  }
  void addLabels(ps::CrossEntropyOp loss) {
    for (BlockArgument argument : getSources(loss.getLabels())) {
      // An input that also indexes an embedding table is treated as token ids, since its values
      // must be in the range of the table.
      if (indexing.contains(argument))
        continue;
      limit(argument, getShape(loss.getLogits()).back());
      if (fits(loss.getIgnoreIndex(), argument))
        set(argument, kIgnoreMark, b.getI64IntegerAttr(loss.getIgnoreIndex()));
      set(argument, kRoleMark, b.getStringAttr("labels"));
    }
  }

private:
  /// Returns true if the element type of the argument can represent `number`. Example: unsigned
  /// bytes cannot represent -100.
  static bool fits(int64_t number, BlockArgument argument) {
    auto type = cast<IntegerType>(getType(argument).getElementType());
    return type.isUnsigned() || type.isInteger(1) ? llvm::isUIntN(type.getWidth(), number)
                                                  : llvm::isIntN(type.getWidth(), number);
  }
  void set(BlockArgument argument, StringRef mark, Attribute value) {
    function.setArgAttr(argument.getArgNumber(), mark, value);
  }
  void limit(BlockArgument argument, int64_t rows) {
    auto known = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kLimitMark);
    int64_t least = known ? std::min(rows, known.getInt()) : rows;
    set(argument, kLimitMark, b.getI64IntegerAttr(least));
  }

  func::FuncOp function;
  Builder b;
  llvm::SmallPtrSet<Value, 4> indexing;
};

} // namespace
} // namespace recognize

void recognizeLabels(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    recognize::InputMarks marks(function);
    SmallVector<ps::CrossEntropyOp> losses;
    function.walk([&](ps::EmbeddingOp op) {
      marks.addIndices(op.getIndices(), recognize::getShape(op.getTable())[0]);
    });
    function.walk([&](ps::CrossEntropyOp op) {
      marks.addLabels(op);
      losses.push_back(op);
    });
    if (ps::isInferenceEntry(function))
      continue;
    if (std::optional<StringRef> shift = recognize::nameShift(losses))
      module->setAttr(kLabelsMark, StringAttr::get(module.getContext(), *shift));
  }
}

} // namespace parashard::import
