// Defines ops that draw random numbers.
include "dialects/ps/Base.td"

def PS_DropoutOp : PS_TensorOp<"dropout", [AllTypesMatch<["operand", "result"]>, AttrSizedOperandSegments, PS_Random, PS_Elementwise, PS_Differentiable, PS_Partition]> {
  let summary = "zeroes elements with probability p, divides the others by 1 - p";
  let description = [{
    Philox4x32-10 computes the random number of an element from the key (run seed, `ps.key`, step)
    and a counter. The counter is micro-batch x (number of global elements of the op) + (global
    index of the element). The backward applies the same dropout to the cotangent. With
    `training = false`, the op is the identity.

    From level 3 on, the operands after `random` are the key and the micro-batch. `factor_sizes`
    arranges the local elements as a row-major array. The global index of an element is `offset` +
    the sum of its index along each factor x the factor's stride in `factor_strides`. Example: the
    right half of a 2 x 4 tensor has `offset` 2, `factor_sizes` [2, 2] and `factor_strides` [4, 1].
    `global_size` is the op's number of global elements.

    Lifespan: created by the importers (level 0) and by `ps-autodiff` (level 1); used by code
    generation.
    ```mlir
    %y = ps.dropout %x p 0.1 {ps.key = 3 : i64} : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$operand, Optional<I64>:$random_key, Optional<I64>:$micro_batch,
    Optional<PS_ScalarI64>:$offset, F64Attr:$p, DefaultValuedAttr<BoolAttr, "true">:$training,
    OptionalAttr<I64Attr>:$global_size,
    OptionalAttr<DenseI64ArrayAttr>:$factor_sizes, OptionalAttr<DenseI64ArrayAttr>:$factor_strides);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = [{
    $operand (`random` $random_key^ `,` $micro_batch)? (`offset` $offset^ `:` type($offset))? `p` $p attr-dict `:`
    type($operand)
  }];
  let hasFolder = 1;
}
