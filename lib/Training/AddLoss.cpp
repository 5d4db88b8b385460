// ps-add-loss: adds a loss and an input `labels` to a model without a loss output.
#include "dialects/ps/Refusal.h"
#include "lib/IR/Symbols.h"
#include "parashard/Training.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::training {
namespace {

constexpr int64_t kIgnored = -100; // torch's default ignore_index

class LossBuilder {
public:
  LossBuilder(func::FuncOp forward, StringRef kind, StringRef requested)
      : forward(forward), end(forward.getBody().front().getTerminator()), kind(kind),
        requested(requested), b(end), loc(end->getLoc()) {}

  LogicalResult build() {
    if (failed(chooseOutput()) || failed(checkNames()))
      return failure();
    if (kind == "cross_entropy")
      warnOfClasses();
    Value labels = addLabels();
    Value loss = kind == "mse" ? buildSquares(labels) : buildCrossEntropy(labels);
    auto mark = b.getDictionaryAttr(b.getNamedAttr(kNameMark, b.getStringAttr(kLossSymbol)));
    unsigned number = forward.getNumResults();
    (void)forward.insertResult(number, loss.getType(), mark);
    end->insertOperands(number, loss);
    return success();
  }

private:
  LogicalResult chooseOutput();
  LogicalResult checkNames();
  void warnOfClasses();
  Value addLabels();
  Value buildCrossEntropy(Value labels);
  Value buildSquares(Value labels);

  RankedTensorType getType(Value value) const { return cast<RankedTensorType>(value.getType()); }
  bool fits(unsigned i) {
    auto type = dyn_cast<RankedTensorType>(end->getOperand(i).getType());
    int64_t least = kind == "causal_lm" ? 3 : kind == "mse" ? 0 : 2;
    return type && isa<FloatType>(type.getElementType()) && type.getRank() >= least &&
           (kind != "causal_lm" || (type.getRank() == 3 && type.getDimSize(1) > 1));
  }
  std::string getName(unsigned i) {
    auto name = forward.getResultAttrOfType<StringAttr>(i, kNameMark);
    return name ? name.str() : std::to_string(i);
  }
  Value sumAll(Value value) {
    auto dims = llvm::to_vector(llvm::seq<int64_t>(0, getType(value).getRank()));
    return dims.empty()
               ? value
               : ReduceOp::create(b, loc, ReductionKind::Sum, value, llvm::ArrayRef<int64_t>(dims))
                     .getResult();
  }
  /// Shifts labels by one: returns labels[t + 1] at index t, and the ignored label at the last
  /// index. Example: [[5, 7, 9]] becomes [[7, 9, -100]].
  Value shift(Value labels) {
    RankedTensorType type = getType(labels);
    Value next = SliceOp::create(b, loc, labels, 1, 1, type.getDimSize(1));
    auto column = RankedTensorType::get({type.getDimSize(0), 1}, type.getElementType());
    Value last = makeConstant(b, loc, column, kIgnored);
    return ConcatOp::create(b, loc, type, ValueRange{next, last}, 1);
  }

  func::FuncOp forward;
  Operation *end;
  StringRef kind, requested;
  OpBuilder b;
  Location loc;
  Value output;
};

/// Chooses the output that --loss-output selects by name or number. Without the flag, chooses
/// output 0 if its type fits, else the only output that fits.
LogicalResult LossBuilder::chooseOutput() {
  llvm::SmallVector<unsigned> fitting;
  std::optional<unsigned> chosen;
  std::string list;
  for (unsigned i = 0; i < end->getNumOperands(); ++i) {
    if (fits(i))
      fitting.push_back(i);
    if (!requested.empty() && (getName(i) == requested || std::to_string(i) == requested))
      chosen = i;
    llvm::raw_string_ostream(list)
        << (i ? ", " : "") << i << " \"" << getName(i) << "\" : " << end->getOperand(i).getType();
  }
  if (!requested.empty() && !chosen)
    return refuseFlag(forward, "loss-output " + requested)
           << ": no such output; outputs are " << list;
  if (!chosen && !fitting.empty() && (fitting.size() == 1 || fitting.front() == 0))
    chosen = fitting.front();
  if (!chosen || !fits(*chosen))
    return refuseFlag(forward, "loss " + kind)
           << " needs a floating-point output"
           << (kind == "causal_lm"       ? " [batch, length, classes]"
               : kind == "cross_entropy" ? " [..., classes]"
                                         : "")
           << "; name it with --loss-output; outputs are " << list;
  output = end->getOperand(*chosen);
  return success();
}

LogicalResult LossBuilder::checkNames() {
  for (unsigned i = 0; i < forward.getNumArguments(); ++i)
    if (auto name = forward.getArgAttrOfType<StringAttr>(i, kNameMark); name && name == "labels")
      return refuseFlag(forward, "loss " + kind)
             << " adds a loss that reads a new input \"labels\", but the model already has an "
                "input "
                "of this name; remove --loss if the model computes its loss itself, else rename "
                "the input";
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    if (getName(i) == kLossSymbol)
      return refuseFlag(forward, "loss " + kind) << ": the model already has an output \"loss\"; "
                                                    "omit --loss if this output is the loss, "
                                                    "else rename the output";
  return success();
}

/// Warns if the classes may be in dim 1 of the output instead of the last dim, because both give
/// labels of the same shape. Example: an output of shape [2, 3, 3].
/// torch.nn.functional.cross_entropy expects the classes in dim 1. Language models have the classes
/// in the last dim, and transpose or flatten the output before they compute the loss.
void LossBuilder::warnOfClasses() {
  auto shape = llvm::to_vector(getType(output).getShape()), others = shape;
  others.erase(others.begin() + 1);
  if (shape.size() > 2 && llvm::ArrayRef(others) == llvm::ArrayRef(shape).drop_back())
    warnFlag(output.getLoc(), "loss cross_entropy")
        << " takes the last dim of the output " << getType(output)
        << " for the classes, but torch.nn.functional.cross_entropy takes dim 1; both give labels "
           "of the same shape here: if dim 1 contains the classes, put the loss into the model, or "
           "transpose the output";
}

Value LossBuilder::addLabels() {
  RankedTensorType type = getType(output);
  if (kind != "mse")
    type = RankedTensorType::get(type.getShape().drop_back(), b.getI64Type());
  auto mark = b.getDictionaryAttr(b.getNamedAttr(kNameMark, b.getStringAttr("labels")));
  (void)forward.insertArgument(forward.getNumArguments(), type, mark,
                               NameLoc::get(b.getStringAttr("labels")));
  return forward.getArguments().back();
}

/// Builds the mean cross-entropy over the labels that are not ignored.
Value LossBuilder::buildCrossEntropy(Value labels) {
  if (kind == "causal_lm")
    labels = shift(labels);
  RankedTensorType type = getType(labels);
  auto rows = CrossEntropyOp::create(b, loc, output, labels, kIgnored);
  Value counted = CompareOp::create(b, loc, RankedTensorType::get(type.getShape(), b.getI1Type()),
                                    Predicate::Ne, labels, makeConstant(b, loc, type, kIgnored));
  Value sum = sumAll(rows.getLoss());
  Value count = sumAll(makeConvert(b, loc, counted, getType(rows.getLoss()).getElementType()));
  return DivOp::create(b, loc, sum.getType(), sum, count);
}

Value LossBuilder::buildSquares(Value labels) {
  RankedTensorType type = getType(output);
  Value difference = SubOp::create(b, loc, type, output, labels);
  Value sum = sumAll(MulOp::create(b, loc, type, difference, difference));
  Value count = makeConstant(b, loc, getType(sum), double(type.getNumElements()));
  return DivOp::create(b, loc, sum.getType(), sum, count);
}

} // namespace

LogicalResult addLoss(ModuleOp module, StringRef kind, StringRef output) {
  if (!llvm::is_contained({"cross_entropy", "causal_lm", "mse"}, kind))
    return module.emitError("loss is '") << kind << "', expected cross_entropy, causal_lm or mse";
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  if (!forward || forward.isExternal())
    return module.emitError("has no function @forward to add a loss to");
  return LossBuilder(forward, kind, output).build();
}

#define GEN_PASS_DEF_ADDLOSSPASS
#include "lib/Training/Passes.h.inc"

namespace {
struct AddLossPass : impl::AddLossPassBase<AddLossPass> {
  using AddLossPassBase::AddLossPassBase;
  void runOnOperation() override {
    if (failed(addLoss(getOperation(), kind, output)))
      signalPassFailure();
  }
};
} // namespace

} // namespace parashard::training
