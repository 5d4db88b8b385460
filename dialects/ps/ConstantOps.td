// Defines constants and iotas.
include "dialects/ps/Base.td"

def PS_ConstantOp : PS_TensorOp<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>, PS_Movement, PS_Partition]> {
  let summary = "a tensor with a constant value";
  let description = [{
    Lifespan: created by the importers, and by passes up to level 3; used by code generation.
    ```mlir
    %0 = ps.constant dense<1.0> : tensor<2x3xf32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs PS_NumberTensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let builders = [OpBuilder<(ins "::mlir::RankedTensorType":$type, "double":$splat)>];
}

def PS_IotaOp : PS_TensorOp<"iota", [PS_Elementwise, PS_Partition]> {
  let summary = "returns the index of each element along `dim`";
  let description = [{
    Lifespan: created by the importers, and by passes up to level 3; used by code generation.
    ```mlir
    %0 = ps.iota dim 1 : tensor<2x3xi64>
    ```
    - (iota_c1) `dim` is a dim of the result.
  }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs PS_NumberTensor:$result);
  let assemblyFormat = "`dim` $dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}
