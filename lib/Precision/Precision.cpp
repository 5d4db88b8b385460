// Implements ps-precision: chooses the type in which each op computes.
#include "parashard/Precision.h"
#include "Float8.h"
#include "TypeAssigner.h"
#include "dialects/ps/Refusal.h"
#include "lib/IR/Symbols.h"
#include "parashard/Training.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::precision {

#define GEN_PASS_DEF_PRECISIONPASS
#include "lib/Precision/Passes.h.inc"

namespace {

Type getElement(VariableOp variable) { return variable.getTensorType().getElementType(); }

/// Converts a constant initial value to `type`. Returns other initial values, such as files,
/// unchanged.
Attribute convertInitial(Attribute init, FloatType type) {
  auto numbers = dyn_cast_or_null<DenseFPElementsAttr>(init);
  if (!numbers)
    return init;
  return numbers.mapValues(type, [&](const APFloat &value) {
    APFloat rounded = value;
    bool losesInfo;
    rounded.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
    return rounded.bitcastToAPInt();
  });
}

/// Changes f32 parameters, gradients, optimizer state and averages to `type`. Scalars that all
/// parameters of an optimizer share stay f32.
void narrowVariables(ModuleOp module, FloatType type) {
  for (auto variable : module.getOps<VariableOp>()) {
    bool isOfParameter = llvm::is_contained({VariableKind::Parameter, VariableKind::Gradient,
                                             VariableKind::Optimizer, VariableKind::Average},
                                            variable.getKind());
    if (!isOfParameter || !getElement(variable).isF32() || variable->hasAttr(kSharedMark))
      continue;
    if (isa_and_nonnull<FileAttr>(variable.getInitAttr()))
      variable->setAttr(kFileTypeMark, TypeAttr::get(getElement(variable)));
    variable.setTypeAttr(TypeAttr::get(variable.getTensorType().clone(type)));
    if (Attribute init = variable.getInitAttr())
      variable.setInitAttr(convertInitial(init, type));
  }
}

/// Makes `@update` compute in f32: converts the values that it reads to f32, and the values that it
/// writes to the variable's type.
void widenUpdate(func::FuncOp update) {
  auto wide = Float32Type::get(update.getContext());
  OpBuilder builder(update.getContext());
  for (Operation &op : llvm::make_early_inc_range(update.getBody().front())) {
    if (!isa<ReadOp, WriteOp>(op))
      continue;
    auto variable = SymbolTable::lookupNearestSymbolFrom<VariableOp>(
        &op, op.getAttrOfType<FlatSymbolRefAttr>("variable"));
    bool reads = isa<ReadOp>(op);
    Value value = reads ? op.getResult(0) : op.getOperand(0);
    if (value.getType() == variable.getTensorType())
      continue;
    if (reads)
      builder.setInsertionPointAfter(&op);
    else
      builder.setInsertionPoint(&op);
    if (reads)
      value.setType(variable.getTensorType());
    Value converted = makeConvert(builder, op.getLoc(), value, reads ? wide : getElement(variable));
    copyMarks(&op, converted.getDefiningOp());
    if (reads)
      value.replaceAllUsesExcept(converted, converted.getDefiningOp());
    else
      op.setOperand(0, converted);
  }
}

/// Converts the gradients that `@update` reads to `type` and back, so that they are reduced over
/// ranks in `type`.
void narrowReductions(func::FuncOp update, FloatType type) {
  OpBuilder builder(update.getContext());
  for (auto read : llvm::make_early_inc_range(update.getOps<ReadOp>())) {
    auto variable = SymbolTable::lookupNearestSymbolFrom<VariableOp>(read, read.getVariableAttr());
    if (variable.getKind() != VariableKind::Gradient || !getElement(variable).isF32())
      continue;
    builder.setInsertionPointAfter(read);
    Value narrow = makeConvert(builder, read.getLoc(), read.getResult(), type);
    Value wide = makeConvert(builder, read.getLoc(), narrow, getElement(variable));
    for (Value value : {narrow, wide})
      copyMarks(read, value.getDefiningOp());
    read.getResult().replaceAllUsesExcept(wide, narrow.getDefiningOp());
  }
}

/// Converts gradients to `type` and back before each accumulation, where ZeRO stages 2 and 3 reduce
/// gradients over ranks.
void narrowAccumulations(func::FuncOp function, FloatType type) {
  OpBuilder builder(function.getContext());
  for (auto accumulate : function.getOps<AccumulateOp>()) {
    auto variable =
        SymbolTable::lookupNearestSymbolFrom<VariableOp>(accumulate, accumulate.getVariableAttr());
    if (variable.getKind() != VariableKind::Gradient || !getElement(variable).isF32())
      continue;
    builder.setInsertionPoint(accumulate);
    Location loc = accumulate.getLoc();
    Value narrow = makeConvert(builder, loc, accumulate.getValue(), type);
    Value wide = makeConvert(builder, loc, narrow, getElement(variable));
    for (Value value : {narrow, wide})
      copyMarks(accumulate, value.getDefiningOp());
    accumulate.getValueMutable().assign(wide);
  }
}

/// Moves narrowing conversions before broadcasts: convert(broadcast(read(bias))) becomes
/// broadcast(convert(read(bias))). `CopyMaker` can then replace convert(read(bias)).
void narrowBeforeSpreading(func::FuncOp function) {
  for (auto convert : llvm::make_early_inc_range(function.getOps<ConvertOp>())) {
    auto broadcast = convert.getOperand().getDefiningOp<BroadcastOp>();
    auto read = broadcast ? broadcast.getOperand().getDefiningOp<ReadOp>() : ReadOp();
    Type element = getElementTypeOrSelf(convert.getResult().getType());
    if (!read || getElementTypeOrSelf(read.getResult().getType()).getIntOrFloatBitWidth() <=
                     element.getIntOrFloatBitWidth())
      continue;
    OpBuilder builder(convert);
    Value narrow = makeConvert(builder, convert.getLoc(), read.getResult(), element);
    copyMarks(convert, narrow.getDefiningOp());
    auto spread = BroadcastOp::create(builder, broadcast.getLoc(), convert.getResult().getType(),
                                      narrow, broadcast.getDimsAttr());
    copyMarks(broadcast, spread);
    convert.getResult().replaceAllUsesWith(spread.getResult());
    convert.erase();
    if (broadcast.use_empty())
      broadcast.erase();
  }
}

/// Replaces conversions of parameters by variables that contain the converted values (copies).
class CopyMaker {
public:
  explicit CopyMaker(ModuleOp module) : module(module), variables(module) {}

  LogicalResult replaceConversions(func::FuncOp function) {
    for (auto op : llvm::make_early_inc_range(function.getOps<ConvertOp>())) {
      auto read = op.getOperand().getDefiningOp<ReadOp>();
      auto variable = read ? variables.lookup(read.getVariableAttr().getValue()) : VariableOp();
      if (!variable || variable.getKind() != VariableKind::Parameter)
        continue;
      FailureOr<VariableOp> copy = getCopy(variable, op.getType());
      if (failed(copy))
        return failure();
      OpBuilder builder(op);
      auto readCopy = makeRead(builder, read.getLoc(), *copy).getDefiningOp<ReadOp>();
      copyMarks(op, readCopy);
      op.replaceAllUsesWith(readCopy.getResult());
      op.erase();
      if (read.use_empty())
        read.erase();
    }
    return success();
  }

  /// Writes each copy when its parameter is written.
  void writeCopies(func::FuncOp update) {
    for (auto write : llvm::make_early_inc_range(update.getOps<WriteOp>()))
      for (VariableOp copy : copies.lookup(write.getVariableAttr().getValue())) {
        OpBuilder builder(write);
        Value value = makeConvert(builder, write.getLoc(), write.getValue(), getElement(copy));
        copyMarks(write, value.getDefiningOp());
        makeWrite(builder, write.getLoc(), copy, value, write.getCondition());
        copyMarks(write, write->getPrevNode());
      }
  }

private:
  FailureOr<VariableOp> getCopy(VariableOp variable, Type type) {
    SmallVector<VariableOp, 1> &known = copies[variable.getSymName()];
    for (VariableOp copy : known)
      if (copy.getTensorType() == type)
        return copy;
    auto tensor = cast<RankedTensorType>(type);
    std::string suffix;
    llvm::raw_string_ostream(suffix) << "." << tensor.getElementType();
    auto made =
        variables.add(VariableKind::Copy, (variable.getSymName() + suffix).str(), tensor, variable);
    if (succeeded(made))
      known.push_back(*made);
    return made;
  }

  ModuleOp module;
  VariableTable variables;
  llvm::DenseMap<StringRef, SmallVector<VariableOp, 1>> copies;
};

/// Returns true if gradients may be reduced over an axis other than the pipeline axis: such an axis
/// has several devices, or the module has no mesh yet. Gradients of parameters that several stages
/// share are also reduced over the pipeline axis, but always in f32.
bool mayReduceGradients(MeshOp mesh) {
  return !mesh || llvm::any_of(mesh.getAxes().getAsRange<AxisAttr>(), [](AxisAttr axis) {
    return axis.getKind() != AxisKind::Pipeline && axis.getDevices() > 1;
  });
}

struct PrecisionPass : impl::PrecisionPassBase<PrecisionPass> {
  using PrecisionPassBase::PrecisionPassBase;

  void runOnOperation() override {
    llvm::Expected<PrecisionSpec> spec = parsePrecision(precision);
    if (!spec) {
      reportError(getOperation(), spec.takeError());
      return signalPassFailure();
    }
    if (failed(assign(*spec)))
      return signalPassFailure();
    if (gradientReduction != "bf16")
      return;
    if (!mayReduceGradients(getMesh(getOperation()))) {
      warnFlag(getOperation(), "gradient-reduction bf16")
          << " has no effect: the mesh has no data or tensor axis with several ranks; remove the "
             "flag, or use a mesh such as dp=2";
      return;
    }
    FloatType narrow = BFloat16Type::get(&getContext());
    if (zero >= 2)
      for (auto function : getOperation().getOps<func::FuncOp>())
        narrowAccumulations(function, narrow);
    else if (auto update = getOperation().lookupSymbol<func::FuncOp>("update"))
      narrowReductions(update, narrow);
  }

private:
  LogicalResult assign(const PrecisionSpec &spec) {
    using Kind = PrecisionSpec::Kind;
    if (spec.kind == Kind::Fp32)
      return success();
    ModuleOp module = getOperation();
    OpClasses classes(spec);
    if (failed(classes.checkGlobs(module)))
      return failure();
    FloatType narrow = spec.kind == Kind::Fp16 ? FloatType(Float16Type::get(&getContext()))
                                               : BFloat16Type::get(&getContext());
    bool all = spec.kind == Kind::Half;
    if (all)
      narrowVariables(module, narrow);
    auto update = module.lookupSymbol<func::FuncOp>("update");
    bool hasGradients = llvm::any_of(module.getOps<VariableOp>(), [](VariableOp variable) {
      return variable.getKind() == VariableKind::Gradient;
    });
    if (spec.scalesLoss() && hasGradients && !module.lookupSymbol(kLossScaleSymbol))
      return refuseFlag(module, "precision fp16")
             << ": the module was dumped without loss scaling, so small gradients would underflow; "
                "compile the .pt2 or .onnx file with --precision fp16";
    CopyMaker copies(module);
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function == update)
        continue;
      TypeAssigner(function, classes, narrow, all).run();
      narrowBeforeSpreading(function);
      if (failed(copies.replaceConversions(function)))
        return failure();
      eraseDeadOps(function.getBody().front());
    }
    if (update) {
      widenUpdate(update);
      copies.writeCopies(update);
    }
    return spec.kind == Kind::Fp8 ? Float8(module, spec.float8).run() : success();
  }
};
} // namespace

} // namespace parashard::precision
