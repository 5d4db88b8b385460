// What an op says about itself: the interfaces through which every pass learns about ops.
#ifndef PARASHARD_DIALECTS_PS_INTERFACES_TD
#define PARASHARD_DIALECTS_PS_INTERFACES_TD

include "mlir/IR/OpBase.td"

def PS_ShardingOpInterface : OpInterface<"ShardingOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = "Which factors the op's dims are made of, and what splitting each of them does.";
  let methods = [
    InterfaceMethod<"The factors of every operand and result dim.",
      "::parashard::ps::ShardingRule", "getShardingRule">,
  ];
}

def PS_PartitionOpInterface : OpInterface<"PartitionOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = [{
    How the op is built on local types. The default clones it on the local operands and
    result types; a split reduction factor makes the result partial over its axes.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the op on `locals` (operands, already resharded to what the op's sharding rule
        asks for) with results of `localResults`. Returns one value per result.
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
  let description = "The derivative of an op, built from its operands, results and cotangents.";
  let methods = [
    InterfaceMethod<"True when the op has a derivative for operand number `operand`.",
      "bool", "isDifferentiable", (ins "unsigned":$operand), "",
      "return ::llvm::isa<::mlir::FloatType>(::mlir::getElementTypeOrSelf($_op->getOperand(operand).getType()));">,
    InterfaceMethod<[{
        Builds the backward of the op. `cotangents` has one value per result, null for zero;
        the answer has one value per operand, null for zero. `builder.needs(i)` says whether the
        cotangent of operand i is wanted at all.
      }],
      "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "differentiate",
      (ins "::parashard::ps::BackwardBuilder &":$builder, "::mlir::ValueRange":$cotangents)>,
  ];
}

def PS_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = "What the op costs on given types: shardings are priced without building ops.";
  let methods = [
    InterfaceMethod<"Flops and bytes on these types.", "::parashard::ps::OpCost", "getCost",
      (ins "::mlir::TypeRange":$operands, "::mlir::TypeRange":$results), "",
      "return ::parashard::ps::elementwiseCost(operands, results);">,
  ];
}

def PS_EvaluateOpInterface : OpInterface<"EvaluateOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = "The meaning of the op: naive loops on host tensors.";
  let methods = [
    InterfaceMethod<"The values of the results.",
      "::mlir::FailureOr<::llvm::SmallVector<::parashard::ps::Tensor>>", "evaluate",
      (ins "::llvm::ArrayRef<::parashard::ps::Tensor>":$operands,
           "const ::parashard::ps::EvaluateContext &":$context)>,
  ];
}

def PS_LoweringOpInterface : OpInterface<"LoweringOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = [{
    How the op becomes code, without naming a target: `Elementwise` ops give one scalar,
    `Row` ops are written once against a row builder, `Movement` ops only say where an element
    comes from, `Library` ops name a call.
  }];
  let methods = [
    InterfaceMethod<"Which of the four ways.", "::parashard::ps::LoweringKind", "getLoweringKind">,
    InterfaceMethod<"Elementwise only: the result's element from the operands' elements (arith and math ops; scalars, or vectors of them).",
      "::mlir::Value", "emitElement",
      (ins "::parashard::ps::ElementBuilder &":$builder, "::mlir::ValueRange":$scalars), "",
      "return {};">,
    InterfaceMethod<"Row only: load, map, reduce, columnReduce, store.",
      "::mlir::LogicalResult", "emitRow", (ins "::parashard::ps::RowBuilder &":$builder), "",
      "return ::mlir::failure();">,
    InterfaceMethod<"Library only: adds the fields of the op's instruction; fails with a diagnostic on the op.",
      "::mlir::LogicalResult", "emitCall", (ins "::parashard::ps::CallBuilder &":$call), "",
      "return $_op.emitOpError(\"has no library call\");">,
  ];
}

def PS_PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = [{
    The types that `ps-precision` gives to the op's floats. An op without this interface computes in the widest
    type of its operands. Ops declare it with `PS_Precision`.
  }];
  let methods = [
    StaticInterfaceMethod<"Returns the class, and how many operands and results it applies to.",
      "::parashard::ps::OpPrecision", "getPrecision">,
  ];
}

def PS_RandomOpInterface : OpInterface<"RandomOpInterface"> {
  let cppNamespace = "::parashard::ps";
  let description = "An op that draws random numbers: where its key and micro-batch come from.";
  let methods = [
    InterfaceMethod<"True when it acts as in training.", "bool", "isTraining", (ins), "",
      "return $_op.getTraining();">,
    InterfaceMethod<"Takes the key (i64) and the micro-batch (i64) from values from now on.",
      "void", "setRandomSource", (ins "::mlir::Value":$key, "::mlir::Value":$microBatch), "",
      "$_op.getRandomKeyMutable().assign(key); $_op.getMicroBatchMutable().assign(microBatch);">,
  ];
}

#endif
