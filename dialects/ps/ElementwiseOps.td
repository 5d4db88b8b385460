// Defines ops that compute each element from the operands' elements at the same index.
include "dialects/ps/Base.td"

// Builds the description of an op without attributes: its lifespan and an example.
class PS_Description<string mnemonic, string operands, Type type> {
  string element = !cond(!eq(type, PS_BoolTensor) : "i1", !eq(type, PS_IntTensor) : "i64", true : "f32");
  string text = "Lifespan: created by the importers, and by passes up to level 3; used by code generation.\n"
                "```mlir\n%0 = ps." # mnemonic # " " # operands # " : tensor<4x8x" # element # ">\n```\n";
}

class PS_UnaryOp<string mnemonic, Type type = PS_FloatTensor, list<Trait> traits = []>
    : PS_TensorOp<mnemonic, !listconcat([SameOperandsAndResultType, PS_Elementwise, PS_Differentiable,
        DeclareOpInterfaceMethods<PS_CostOpInterface>], traits)> {
  let description = PS_Description<mnemonic, "%a", type>.text;
  let arguments = (ins type:$operand);
  let results = (outs type:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

class PS_BinaryOp<string mnemonic, Type type = PS_NumberTensor, list<Trait> traits = []>
    : PS_TensorOp<mnemonic, !listconcat([SameOperandsAndResultType, PS_Elementwise, PS_Differentiable,
        DeclareOpInterfaceMethods<PS_CostOpInterface>], traits)> {
  let description = PS_Description<mnemonic, "%a, %b", type>.text;
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def PS_NegOp : PS_UnaryOp<"neg", PS_NumberTensor> { let summary = "negation"; let hasFolder = 1; }
def PS_AbsOp : PS_UnaryOp<"abs", PS_NumberTensor> { let summary = "absolute value"; }
def PS_ExpOp : PS_UnaryOp<"exp", PS_FloatTensor, [PS_Precision<"Fp32">]> { let summary = "e to the power of the operand"; }
def PS_Expm1Op : PS_UnaryOp<"expm1", PS_FloatTensor, [PS_Precision<"Fp32">]> { let summary = "e to the power of the operand, minus 1; accurate near 0"; }
def PS_LogOp : PS_UnaryOp<"log", PS_FloatTensor, [PS_Precision<"Fp32">]> { let summary = "natural logarithm"; }
def PS_Log1pOp : PS_UnaryOp<"log1p", PS_FloatTensor, [PS_Precision<"Fp32">]> { let summary = "natural logarithm of 1 + the operand; accurate near 0"; }
def PS_SqrtOp : PS_UnaryOp<"sqrt"> { let summary = "square root"; }
def PS_RsqrtOp : PS_UnaryOp<"rsqrt", PS_FloatTensor, [PS_Precision<"Fp32">]> { let summary = "1 / square root"; }
def PS_TanhOp : PS_UnaryOp<"tanh"> { let summary = "hyperbolic tangent"; }
def PS_ErfOp : PS_UnaryOp<"erf"> { let summary = "error function"; }
def PS_SinOp : PS_UnaryOp<"sin"> { let summary = "sine"; }
def PS_CosOp : PS_UnaryOp<"cos"> { let summary = "cosine"; }
def PS_AtanOp : PS_UnaryOp<"atan"> { let summary = "inverse tangent"; }
def PS_SigmoidOp : PS_UnaryOp<"sigmoid"> { let summary = "1 / (1 + exp(-x))"; }
def PS_ReluOp : PS_UnaryOp<"relu"> { let summary = "max(x, 0)"; }
def PS_SiluOp : PS_UnaryOp<"silu"> { let summary = "x sigmoid(x)"; }
def PS_SoftplusOp : PS_UnaryOp<"softplus", PS_FloatTensor, [PS_Precision<"Fp32">]> { let summary = "log(1 + exp(x)) without overflow or cancellation"; }
def PS_FloorOp : PS_UnaryOp<"floor"> { let summary = "rounds down"; }
def PS_CeilOp : PS_UnaryOp<"ceil"> { let summary = "rounds up"; }
def PS_TruncOp : PS_UnaryOp<"trunc"> { let summary = "rounds toward zero"; }
def PS_RoundOp : PS_UnaryOp<"round"> { let summary = "rounds to the nearest integer, ties to even"; }
def PS_NotOp : PS_UnaryOp<"not", PS_BoolTensor> { let summary = "logical negation"; let hasFolder = 1; }

def PS_GeluOp : PS_TensorOp<"gelu", [SameOperandsAndResultType, PS_Elementwise, PS_Differentiable,
    DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "Gaussian error linear unit, by erf or by the tanh formula";
  let description = [{
    Lifespan: created by the importers (level 0); used by code generation.
    ```mlir
    %0 = ps.gelu erf %a : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins PS_GeluKindAttr:$kind, PS_FloatTensor:$operand);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = "`` $kind $operand attr-dict `:` type($result)";
}
def PS_GeluGradOp : PS_TensorOp<"gelu_grad", [SameOperandsAndResultType, PS_Elementwise,
    DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "computes the cotangent of a GELU's operand";
  let description = [{
    Lifespan: created by `ps-autodiff` (level 1); used by code generation.
    ```mlir
    %0 = ps.gelu_grad erf %g, %a : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins PS_GeluKindAttr:$kind, PS_FloatTensor:$cotangent, PS_FloatTensor:$operand);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = "`` $kind $cotangent `,` $operand attr-dict `:` type($result)";
}
def PS_SiluGradOp : PS_TensorOp<"silu_grad", [SameOperandsAndResultType, PS_Elementwise,
    DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "computes the cotangent of a SiLU's operand";
  let description = [{
    Lifespan: created by `ps-autodiff` (level 1); used by code generation.
    ```mlir
    %0 = ps.silu_grad %g, %a : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$cotangent, PS_FloatTensor:$operand);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = "$cotangent `,` $operand attr-dict `:` type($result)";
}

def PS_AddOp : PS_BinaryOp<"add", PS_NumberTensor, [Commutative]> { let summary = "sum"; let hasFolder = 1; }
def PS_SubOp : PS_BinaryOp<"sub"> { let summary = "difference"; let hasFolder = 1; }
def PS_MulOp : PS_BinaryOp<"mul", PS_NumberTensor, [Commutative]> { let summary = "product"; let hasFolder = 1; }
def PS_DivOp : PS_BinaryOp<"div"> {
  let summary = "quotient; integers round toward zero";
  let description = [{
    An integer divided by 0 gives 0. The least integer divided by -1 gives itself (wraps around). A
    kernel cannot raise an error, so the evaluator and every device give these results.

    Lifespan: created by the importers, and by passes up to level 3; used by code generation.
    ```mlir
    %0 = ps.div %a, %b : tensor<4xi32>
    ```
  }];
  let hasFolder = 1;
}
def PS_PowOp : PS_BinaryOp<"pow", PS_FloatTensor, [PS_Precision<"Fp32">]> { let summary = "lhs to the power of rhs"; let hasCanonicalizer = 1; }
def PS_MaxOp : PS_BinaryOp<"max", PS_NumberTensor, [Commutative]> { let summary = "the larger operand"; }
def PS_MinOp : PS_BinaryOp<"min", PS_NumberTensor, [Commutative]> { let summary = "the smaller operand"; }
def PS_AndOp : PS_BinaryOp<"and", PS_IntTensor, [Commutative]> { let summary = "bitwise and (logical on bools)"; let hasFolder = 1; }
def PS_OrOp : PS_BinaryOp<"or", PS_IntTensor, [Commutative]> { let summary = "bitwise or (logical on bools)"; let hasFolder = 1; }

def PS_BinaryCrossEntropyOp : PS_BinaryOp<"binary_cross_entropy", PS_FloatTensor, [PS_Precision<"Fp32">]> {
  let summary = "-(t log(p) + (1 - t) log(1 - p)) for probabilities `lhs` and targets `rhs`";
  let description = [{
    As in PyTorch, logarithms are clamped to at least -100. The derivative by p is (p - t) / (p (1 -
    p)), with the divisor clamped to at least 1e-12.

    Lifespan: created by the importers (level 0); used by code generation.
    ```mlir
    %l = ps.binary_cross_entropy %p, %t : tensor<4x8xf32>
    ```
  }];
}

def PS_CompareOp : PS_TensorOp<"compare", [PS_Elementwise, SameTypeOperands, SameOperandsAndResultShape,
    DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "compares two values";
  let description = [{
    Lifespan: created by the importers, and by passes up to level 3; used by code generation.
    ```mlir
    %0 = ps.compare lt %a, %b : tensor<4xf32> -> tensor<4xi1>
    ```
  }];
  let arguments = (ins PS_PredicateAttr:$predicate, PS_NumberTensor:$lhs, PS_NumberTensor:$rhs);
  let results = (outs PS_BoolTensor:$result);
  let assemblyFormat = "`` $predicate $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
  let hasFolder = 1;
}

def PS_SelectOp : PS_TensorOp<"select", [PS_Elementwise, PS_DifferentiableIn, SameOperandsAndResultShape,
    AllTypesMatch<["on_true", "on_false", "result"]>, DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "selects between two values by a bool";
  let description = [{
    Lifespan: created by the importers, and by passes up to level 3; used by code generation.
    ```mlir
    %0 = ps.select %c, %a, %b : tensor<4xi1>, tensor<4xf32>
    ```
  }];
  let arguments = (ins PS_BoolTensor:$condition, PS_NumberTensor:$on_true, PS_NumberTensor:$on_false);
  let results = (outs PS_NumberTensor:$result);
  let assemblyFormat = "$condition `,` $on_true `,` $on_false attr-dict `:` type($condition) `,` type($result)";
  let hasFolder = 1;
}

def PS_ConvertOp : PS_TensorOp<"convert", [PS_Elementwise, PS_Differentiable, SameOperandsAndResultShape,
    DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "converts to another element type";
  let description = [{
    Float results are rounded to nearest even. Floats convert to integers by truncation. Any nonzero
    value converts to true.

    Lifespan: created by the importers, and by passes up to level 3; used by code generation.
    ```mlir
    %0 = ps.convert %a : tensor<4xi64> -> tensor<4xf32>
    ```
  }];
  let arguments = (ins PS_NumberTensor:$operand);
  let results = (outs PS_NumberTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
}

def PS_StopGradientOp : PS_TensorOp<"stop_gradient", [SameOperandsAndResultType, PS_Elementwise,
    PS_DifferentiableIn, DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "returns the operand, with a derivative of zero";
  let description = [{
    Represents `detach()` and `torch.no_grad()` on a value that depends on trained parameters.
    Passes before `ps-autodiff` keep the op, so that no pattern matches across it.

    Lifespan: created by the importers. `ps-autodiff` does not build a backward for the op. After
    `ps-autodiff`, when the op has a phase, the op folds to its operand.
    ```mlir
    %target = ps.stop_gradient %a : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$operand);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
  let hasFolder = 1;
}

def PS_ByModeOp : PS_TensorOp<"by_mode", [SameOperandsAndResultType, PS_Elementwise, PS_Differentiable]> {
  let summary = "returns the first value in training, the second in evaluation";
  let description = [{
    Example: batch norm uses the statistics of the batch in training and the running statistics in
    evaluation.

    Lifespan: created by the importers. `ps-autodiff` clears `training` in `@evaluate`. The op folds
    to `in_evaluation` if `training` is false. Otherwise, the op folds to `in_training` after
    `ps-autodiff`, when the op has a phase.
    ```mlir
    %m = ps.by_mode %batch, %running : tensor<8xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$in_training, PS_FloatTensor:$in_evaluation,
                       DefaultValuedAttr<BoolAttr, "true">:$training);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = "$in_training `,` $in_evaluation attr-dict `:` type($result)";
  let hasFolder = 1;
}
