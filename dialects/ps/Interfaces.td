// Defines the op interfaces that passes use.
#ifndef PARASHARD_DIALECTS_PS_INTERFACES_TD
#define PARASHARD_DIALECTS_PS_INTERFACES_TD

include "mlir/IR/OpBase.td"

def PS_ShardingOpInterface : OpInterface<"ShardingOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = "Describes the factors of the op's dims, and the effect of sharding each factor.";
  let methods = [
    InterfaceMethod<"Returns the factors of every operand and result dim.",
      "::parashard::ps::ShardingRule", "getShardingRule">,
  ];
}

def PS_PartitionOpInterface : OpInterface<"PartitionOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = [{
    Builds the op on local types. By default, clones the op with local operands and result types. If
    a reduction factor is sharded, the result is partial over the factor's axes.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the op on `locals` with results of the types `localResults`. The operands are already
        resharded as the op's sharding rule requires. Returns one value per result.
      }],
      "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "partition",
      (ins "::parashard::ps::PartitionBuilder &":$builder, "::mlir::ValueRange":$locals,
           "::mlir::TypeRange":$localResults),
      /*methodBody=*/"",
      /*defaultImplementation=*/"return ::parashard::ps::partitionByCloning($_op, builder, locals, localResults);">,
  ];
}

def PS_DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = "Builds the derivative of an op from its operands, results and cotangents.";
  let methods = [
    InterfaceMethod<"Returns whether the op has a derivative by operand number `operand`.",
      "bool", "isDifferentiable", (ins "unsigned":$operand), "",
      "return ::llvm::isa<::mlir::FloatType>(::mlir::getElementTypeOrSelf($_op->getOperand(operand).getType()));">,
    InterfaceMethod<[{
        Builds the backward of the op. `cotangents` has one value per result; null means zero.
        Returns one cotangent per operand; null means zero. `builder.needs(i)` tells whether the
        cotangent of operand i is needed.
      }],
      "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "differentiate",
      (ins "::parashard::ps::BackwardBuilder &":$builder, "::mlir::ValueRange":$cotangents)>,
  ];
}

def PS_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = "Estimates the cost of the op on given types, without building ops.";
  let methods = [
    InterfaceMethod<"Returns flops and bytes for these types.", "::parashard::ps::OpCost", "getCost",
      (ins "::mlir::TypeRange":$operands, "::mlir::TypeRange":$results), "",
      "return ::parashard::ps::elementwiseCost(operands, results);">,
  ];
}

def PS_EvaluateOpInterface : OpInterface<"EvaluateOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = "Evaluates the op with naive loops on host tensors. Defines the op's semantics.";
  let methods = [
    InterfaceMethod<"Returns the values of the results.",
      "::mlir::FailureOr<::llvm::SmallVector<::parashard::ps::Tensor>>", "evaluate",
      (ins "::llvm::ArrayRef<::parashard::ps::Tensor>":$operands,
           "const ::parashard::ps::EvaluateContext &":$context)>,
  ];
}

def PS_LoweringOpInterface : OpInterface<"LoweringOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = [{
    Lowers the op to code, independently of the target. `Elementwise` ops emit the code of one
    element. `Row` ops emit the code of one row with a `RowBuilder`. `Movement` ops only map result
    elements to operand elements. `Library` ops call a library function.
  }];
  let methods = [
    InterfaceMethod<"Returns the kind of lowering.", "::parashard::ps::LoweringKind", "getLoweringKind">,
    InterfaceMethod<"Elementwise only: computes the result's element from the operands' elements (scalars or vectors) with arith and math ops.",
      "::mlir::Value", "emitElement",
      (ins "::parashard::ps::ElementBuilder &":$builder, "::mlir::ValueRange":$scalars), "",
      "return {};">,
    InterfaceMethod<"Row only: emits loads, maps, reductions and stores.",
      "::mlir::LogicalResult", "emitRow", (ins "::parashard::ps::RowBuilder &":$builder), "",
      "return ::mlir::failure();">,
    InterfaceMethod<"Library only: adds the fields of the op's instruction. On failure, emits a diagnostic on the op.",
      "::mlir::LogicalResult", "emitCall", (ins "::parashard::ps::CallBuilder &":$call), "",
      "return $_op.emitOpError(\"has no library call\");">,
    InterfaceMethod<[{Returns whether the op's code reads operand `operand` with any strides of the other dims, if the
      last dim has the stride 1. A transpose that keeps the last dim then needs no copy. Kernels read any view.}],
      "bool", "readsStrides", (ins "unsigned":$operand), "",
      "return $_op.getLoweringKind() != ::parashard::ps::LoweringKind::Library && $_op.getLoweringKind() != ::parashard::ps::LoweringKind::Collective;">,
  ];
}

def PS_PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = [{
    Gives the types that `ps-precision` assigns to the op's float operands and results. An op
    without this interface computes in the widest type of its operands. Ops implement the interface
    with `PS_Precision`.
  }];
  let methods = [
    StaticInterfaceMethod<"Returns the precision class, and the numbers of operands and results to which the class applies.",
      "::parashard::ps::OpPrecision", "getPrecision">,
  ];
}

def PS_RandomOpInterface : OpInterface<"RandomOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = "Gives the sources of an op's random numbers: its key and micro-batch.";
  let methods = [
    InterfaceMethod<"Returns whether the op acts as in training.", "bool", "isTraining", (ins), "",
      "return $_op.getTraining();">,
    InterfaceMethod<"Sets the values that give the key (i64) and the micro-batch (i64).",
      "void", "setRandomSource", (ins "::mlir::Value":$key, "::mlir::Value":$microBatch), "",
      "$_op.getRandomKeyMutable().assign(key); $_op.getMicroBatchMutable().assign(microBatch);">,
  ];
}

#endif
