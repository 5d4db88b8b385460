// Ops that draw random numbers.
include "dialects/ps/Base.td"

def PS_DropoutOp : PS_TensorOp<"dropout", [AllTypesMatch<["operand", "result"]>, AttrSizedOperandSegments, PS_Random, PS_Elementwise, PS_Differentiable, PS_Partition]> {
  let summary = "zero with probability p, else x / (1 - p)";
  let description = [{
    The number of an element is Philox4x32-10 with key (run seed, `ps.key`, step) and counter
    micro-batch x (global elements of the op) + global element index. Applied to the cotangent it is its own
    backward. At level 3 `random` gives the key and the micro-batch, and the global element index of a
    local element is `offset` + sum of its place in each of `factor_sizes` times `factor_strides`;
    `global_size` is the op's number of global elements. With `training = false` it is the identity.
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
