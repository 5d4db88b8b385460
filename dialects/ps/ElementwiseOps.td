// Ops that give each element from the elements at the same place.
include "dialects/ps/Base.td"

class PS_UnaryOp<string mnemonic, Type type = PS_FloatTensor, list<Trait> traits = []>
    : PS_TensorOp<mnemonic, !listconcat([SameOperandsAndResultType, PS_Elementwise, PS_Differentiable,
        DeclareOpInterfaceMethods<PS_CostOpInterface>], traits)> {
  let arguments = (ins type:$operand);
  let results = (outs type:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

class PS_BinaryOp<string mnemonic, Type type = PS_NumberTensor, list<Trait> traits = []>
    : PS_TensorOp<mnemonic, !listconcat([SameOperandsAndResultType, PS_Elementwise, PS_Differentiable,
        DeclareOpInterfaceMethods<PS_CostOpInterface>], traits)> {
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def PS_NegOp : PS_UnaryOp<"neg", PS_NumberTensor> { let summary = "negation"; let hasFolder = 1; }
def PS_AbsOp : PS_UnaryOp<"abs", PS_NumberTensor> { let summary = "absolute value"; }
def PS_ExpOp : PS_UnaryOp<"exp", PS_FloatTensor, [PS_Precision<"Fp32">]> { let summary = "e to the operand"; }
def PS_Expm1Op : PS_UnaryOp<"expm1", PS_FloatTensor, [PS_Precision<"Fp32">]> { let summary = "e to the operand, less 1; accurate near 0"; }
def PS_LogOp : PS_UnaryOp<"log", PS_FloatTensor, [PS_Precision<"Fp32">]> { let summary = "natural logarithm"; }
def PS_Log1pOp : PS_UnaryOp<"log1p", PS_FloatTensor, [PS_Precision<"Fp32">]> { let summary = "natural logarithm of 1 + the operand; accurate near 0"; }
def PS_SqrtOp : PS_UnaryOp<"sqrt"> { let summary = "square root"; }
def PS_RsqrtOp : PS_UnaryOp<"rsqrt", PS_FloatTensor, [PS_Precision<"Fp32">]> { let summary = "1 / square root"; }
def PS_TanhOp : PS_UnaryOp<"tanh"> { let summary = "hyperbolic tangent"; }
def PS_ErfOp : PS_UnaryOp<"erf"> { let summary = "error function"; }
def PS_SinOp : PS_UnaryOp<"sin"> { let summary = "sine"; }
def PS_CosOp : PS_UnaryOp<"cos"> { let summary = "cosine"; }
def PS_SigmoidOp : PS_UnaryOp<"sigmoid"> { let summary = "1 / (1 + exp(-x))"; }
def PS_ReluOp : PS_UnaryOp<"relu"> { let summary = "max(x, 0)"; }
def PS_SiluOp : PS_UnaryOp<"silu"> { let summary = "x sigmoid(x)"; }
def PS_SoftplusOp : PS_UnaryOp<"softplus", PS_FloatTensor, [PS_Precision<"Fp32">]> { let summary = "log(1 + exp(x)); neither overflows nor cancels"; }
def PS_FloorOp : PS_UnaryOp<"floor"> { let summary = "the largest integer that is not above"; }
def PS_CeilOp : PS_UnaryOp<"ceil"> { let summary = "the smallest integer that is not below"; }
def PS_TruncOp : PS_UnaryOp<"trunc"> { let summary = "the integer part"; }
def PS_RoundOp : PS_UnaryOp<"round"> { let summary = "the nearest integer, the even one of two"; }
def PS_NotOp : PS_UnaryOp<"not", PS_BoolTensor> { let summary = "logical negation"; let hasFolder = 1; }

def PS_GeluOp : PS_TensorOp<"gelu", [SameOperandsAndResultType, PS_Elementwise, PS_Differentiable,
    DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "Gaussian error linear unit, by erf or by the tanh formula";
  let arguments = (ins PS_GeluKindAttr:$kind, PS_FloatTensor:$operand);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = "`` $kind $operand attr-dict `:` type($result)";
}
def PS_GeluGradOp : PS_TensorOp<"gelu_grad", [SameOperandsAndResultType, PS_Elementwise,
    DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "the cotangent of a GELU's operand";
  let arguments = (ins PS_GeluKindAttr:$kind, PS_FloatTensor:$cotangent, PS_FloatTensor:$operand);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = "`` $kind $cotangent `,` $operand attr-dict `:` type($result)";
}
def PS_SiluGradOp : PS_TensorOp<"silu_grad", [SameOperandsAndResultType, PS_Elementwise,
    DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "the cotangent of a SiLU's operand";
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
    An integer divided by 0 gives 0, and the least integer divided by -1 gives itself (it wraps around): a kernel
    cannot raise an error, so the result is defined, the same in the evaluator and on every device.

    ```mlir
    %0 = ps.div %a, %b : tensor<4xi32>
    ```
  }];
  let hasFolder = 1;
}
def PS_PowOp : PS_BinaryOp<"pow", PS_FloatTensor, [PS_Precision<"Fp32">]> { let summary = "lhs to the rhs"; let hasCanonicalizer = 1; }
def PS_MaxOp : PS_BinaryOp<"max", PS_NumberTensor, [Commutative]> { let summary = "the larger"; }
def PS_MinOp : PS_BinaryOp<"min", PS_NumberTensor, [Commutative]> { let summary = "the smaller"; }
def PS_AndOp : PS_BinaryOp<"and", PS_IntTensor, [Commutative]> { let summary = "bitwise and (logical on bools)"; let hasFolder = 1; }
def PS_OrOp : PS_BinaryOp<"or", PS_IntTensor, [Commutative]> { let summary = "bitwise or (logical on bools)"; let hasFolder = 1; }

def PS_BinaryCrossEntropyOp : PS_BinaryOp<"binary_cross_entropy", PS_FloatTensor, [PS_Precision<"Fp32">]> {
  let summary = "-(t log(p) + (1 - t) log(1 - p)) of probabilities `lhs` and targets `rhs`";
  let description = [{
    Logarithms are at least -100, and the derivative by p, (p - t) / (p (1 - p)), has a divisor of at least 1e-12,
    as in PyTorch.
  }];
}

def PS_CompareOp : PS_TensorOp<"compare", [PS_Elementwise, SameTypeOperands, SameOperandsAndResultShape,
    DeclareOpInterfaceMethods<PS_CostOpInterface>]> {
  let summary = "an ordered comparison";
  let description = [{
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
  let summary = "one of two values, by a bool";
  let description = [{
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
  let summary = "the same values in another element type";
  let description = [{
    Floats round to nearest even; a float becomes an int by truncation; any nonzero becomes true.

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
  let summary = "the operand, with a derivative of zero";
  let description = [{
    What `detach()` and `torch.no_grad()` make of a value that depends on trained parameters. Passes of level 0 keep
    the op: a pattern that is matched by value must not reach through it.
    Lifespan: made by the importers. `ps-autodiff` builds no backward through it. It folds to its operand on ops that
    carry a phase (level 1 on), where the backward is there already.
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
  let summary = "the first value in training, the second in evaluation";
  let description = [{
    A batch norm normalises by the statistics of the batch in training, by the running ones in evaluation.
    Lifespan: made by the importers; `ps-autodiff` clears `training` in `@evaluate`. It folds to the value that holds
    where `training` is false, and on ops that carry a phase (level 1 on), whose function is known.
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
