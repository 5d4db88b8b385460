// Defines the base classes of the `ps` ops.
#ifndef PARASHARD_DIALECTS_PS_BASE_TD
#define PARASHARD_DIALECTS_PS_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "dialects/ps/Dialect.td"
include "dialects/ps/Interfaces.td"

def PS_Float : AnyTypeOf<[F32, F64, F16, BF16]>;
def PS_Float8 : AnyTypeOf<[F8E4M3FN, F8E5M2]>;
def PS_Integer : AnyTypeOf<[I1, I8, UI8, I16, I32, I64]>;
def PS_Element : AnyTypeOf<[F32, F64, F16, BF16, I1, I8, UI8, I16, I32, I64]>;
// 8-bit floats can be moved, quantized, dequantized and multiplied. No other arithmetic accepts
// them.
def PS_Tensor : StaticShapeTensorOf<[PS_Element, PS_Float8]>;
def PS_NumberTensor : StaticShapeTensorOf<[PS_Element]>;
def PS_FloatTensor : StaticShapeTensorOf<[PS_Float]>;
def PS_Float8Tensor : StaticShapeTensorOf<[PS_Float8]>;
def PS_IntTensor : StaticShapeTensorOf<[PS_Integer]>;
def PS_BoolTensor : StaticShapeTensorOf<[I1]>;
def PS_ScalarI64 : 0DTensorOf<[I64]>;
def PS_ScalarBool : 0DTensorOf<[I1]>;

class PS_Op<string mnemonic, list<Trait> traits = []> : Op<PS_Dialect, mnemonic, traits>;

// A pure tensor op with a sharding rule and a reference evaluation.
class PS_TensorOp<string mnemonic, list<Trait> traits = []>
    : PS_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<PS_ShardingOpInterface>,
        DeclareOpInterfaceMethods<PS_EvaluateOpInterface>], traits)>;

// The ways to lower an op to code. The C++ source of each op defines `getLoweringKind`.
def PS_Elementwise : DeclareOpInterfaceMethods<PS_LoweringOpInterface, ["getLoweringKind", "emitElement"]>;
def PS_Row : DeclareOpInterfaceMethods<PS_LoweringOpInterface, ["getLoweringKind", "emitRow"]>;
def PS_Movement : DeclareOpInterfaceMethods<PS_LoweringOpInterface, ["getLoweringKind"]>;
def PS_Library : DeclareOpInterfaceMethods<PS_LoweringOpInterface, ["getLoweringKind", "emitCall"]>;
// A matmul also calls a library function. The instruction depends on views of the operands and on
// the chunks of `--overlap`, so lib/Codegen writes the instruction.
def PS_Matmul : DeclareOpInterfaceMethods<PS_LoweringOpInterface, ["getLoweringKind", "readsStrides"]>;
// A library function that reads some operands through strides.
def PS_StridedLibrary : DeclareOpInterfaceMethods<PS_LoweringOpInterface, ["getLoweringKind", "emitCall", "readsStrides"]>;

def PS_Differentiable : DeclareOpInterfaceMethods<PS_DifferentiableOpInterface>;
def PS_DifferentiableIn : DeclareOpInterfaceMethods<PS_DifferentiableOpInterface, ["isDifferentiable"]>;
def PS_Partition : DeclareOpInterfaceMethods<PS_PartitionOpInterface, ["partition"]>;
def PS_Random : DeclareOpInterfaceMethods<PS_RandomOpInterface>;
class PS_HasPrecision<string parameters> : ParamNativeOpTrait<"HasPrecision", parameters> {
  let cppNamespace = "::parashard::ps";
}
// Implements PrecisionOpInterface. `kind` is Compute or Fp32. OpPrecision describes the numbers
// `operands` and `results`.
class PS_Precision<string kind, int operands = -1, int results = -1> : TraitList<[
    PS_HasPrecision<"::parashard::ps::PrecisionClass::" # kind # ", " # operands # ", " # results>, PS_PrecisionOpInterface]>;
def PS_Cost : DeclareOpInterfaceMethods<PS_CostOpInterface, ["getCost"]>;

#endif
