// Defines ops with regions.
include "dialects/ps/Base.td"

def PS_FusedOp : PS_Op<"fused", [Pure, IsolatedFromAbove, SingleBlock]> {
  let summary = "groups ops into one kernel over one iteration space";
  let description = [{
    The block contains Elementwise, Row and Movement ops. Their values have the shape of one
    iteration space (rows x columns), or are broadcast to it. Grouping does not change the value of
    any op.

    Lifespan: created by `ps-fuse` at level 3; used by code generation.

    Constraints:
    - (fused_c1) the block's arguments have the types of the inputs.
    - (fused_c2) the block ends in a `ps.yield` of values of the results' types.
    ```mlir
    %1 = ps.fused (%0) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
    ^bb0(%a: tensor<4x8xf32>):
      %b = ps.exp %a : tensor<4x8xf32>
      ps.yield %b : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$inputs);
  let results = (outs Variadic<PS_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict `:` functional-type($inputs, $results) $body";
  let hasVerifier = 1;
}
def PS_YieldOp : PS_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["FusedOp"]>]> {
  let summary = "returns the results of a region";
  let description = [{
    Lifespan: that of the enclosing `ps.fused`.
    ```mlir
    %1 = ps.fused (%0) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
    ^bb0(%a: tensor<4x8xf32>):
      %b = ps.neg %a : tensor<4x8xf32>
      ps.yield %b : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<PS_Tensor>:$results);
  let assemblyFormat = "attr-dict ($results^ `:` type($results))?";
}
