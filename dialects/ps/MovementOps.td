// Defines ops that only move elements.
include "dialects/ps/Base.td"

class PS_MovementOp<string mnemonic, list<Trait> traits = []>
    : PS_TensorOp<mnemonic, !listconcat([PS_Movement, PS_Differentiable], traits)> {
  let hasVerifier = 1;
}

def PS_ReshapeOp : PS_MovementOp<"reshape", [PS_Partition]> {
  let summary = "changes the shape, keeping the elements in row-major order";
  let description = [{
    Lifespan: created by the importers, and by passes up to level 3; used by code generation.

    - (reshape_c1) operand and result have the same number of elements and the same element type.
    ```mlir
    %0 = ps.reshape %a : tensor<2x6xf32> -> tensor<2x2x3xf32>
    ```
  }];
  let arguments = (ins PS_Tensor:$operand);
  let results = (outs PS_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def PS_TransposeOp : PS_MovementOp<"transpose"> {
  let summary = "permutes dims: result dim i is operand dim permutation[i]";
  let description = [{
    Lifespan: created by the importers, and by passes up to level 3; used by code generation.

    - (transpose_c1) `permutation` is a permutation of the operand's dims.
    - (transpose_c2) the result's shape is the permuted shape.
    ```mlir
    %0 = ps.transpose %a [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
    ```
  }];
  let arguments = (ins PS_Tensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs PS_Tensor:$result);
  let assemblyFormat = "$operand $permutation attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$operand, "::llvm::ArrayRef<int64_t>":$permutation)>];
}

def PS_BroadcastOp : PS_MovementOp<"broadcast"> {
  let summary = "repeats elements: operand dim i becomes result dim dims[i], and the elements repeat along all other result dims";
  let description = [{
    Lifespan: created by the importers, and by passes up to level 3; used by code generation.

    - (broadcast_c1) `dims` are increasing dims of the result, one per operand dim.
    - (broadcast_c2) operand dim i has the size of result dim dims[i].
    ```mlir
    %0 = ps.broadcast %a dims [1] : tensor<3xf32> -> tensor<2x3xf32>
    ```
  }];
  let arguments = (ins PS_Tensor:$operand, DenseI64ArrayAttr:$dims);
  let results = (outs PS_Tensor:$result);
  let assemblyFormat = "$operand `dims` $dims attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def PS_SliceOp : PS_MovementOp<"slice", [PS_Partition]> {
  let summary = "returns the elements start, start + stride, ... below limit along each dim";
  let description = [{
    Lifespan: created by the importers, and by passes up to level 3; used by code generation.

    - (slice_c1) `starts`, `limits` and `strides` have one entry per dim; 0 <= start <= limit <=
      size; stride >= 1.
    - (slice_c2) each result dim has the size ceil((limit - start) / stride).
    ```mlir
    %0 = ps.slice %a [0, 1] to [2, 3] by [1, 1] : tensor<2x4xf32> -> tensor<2x2xf32>
    ```
  }];
  let arguments = (ins PS_Tensor:$operand, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$limits,
                       DenseI64ArrayAttr:$strides);
  let results = (outs PS_Tensor:$result);
  let assemblyFormat = "$operand $starts `to` $limits `by` $strides attr-dict `:` type($operand) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$operand, "int64_t":$dim, "int64_t":$start, "int64_t":$limit)>];
}

def PS_PadOp : PS_MovementOp<"pad", [PS_Partition]> {
  let summary = "inserts zeros before, between and after the elements; the adjoint of slice";
  let description = [{
    A dim of size n becomes a dim of size low + (n > 0 ? (n - 1) * stride + 1 : 0) + high. Example:
    n = 3, low = 1, high = 0 and stride = 2 give 6.

    Lifespan: created by the importers, and by passes up to level 3; used by code generation.

    Constraints:
    - (pad_c1) `low`, `high` and `strides` have one entry per dim; low, high >= 0; stride >= 1.
    - (pad_c2) the result has the shape above.
    ```mlir
    %0 = ps.pad %a low [0, 1] high [0, 1] by [1, 1] : tensor<2x2xf32> -> tensor<2x4xf32>
    ```
  }];
  let arguments = (ins PS_Tensor:$operand, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                       DenseI64ArrayAttr:$strides);
  let results = (outs PS_Tensor:$result);
  let assemblyFormat = "$operand `low` $low `high` $high `by` $strides attr-dict `:` type($operand) `->` type($result)";
}

def PS_ConcatOp : PS_MovementOp<"concat", [PS_Partition]> {
  let summary = "concatenates the operands along `dim`";
  let description = [{
    Lifespan: created by the importers, and by passes up to level 3; used by code generation.

    - (concat_c1) operands agree in all dims except `dim`; the result's `dim` is the sum of theirs.
    ```mlir
    %0 = ps.concat %a, %b dim 0 : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
    ```
  }];
  let arguments = (ins Variadic<PS_Tensor>:$operands, I64Attr:$dim);
  let results = (outs PS_Tensor:$result);
  let assemblyFormat = "$operands `dim` $dim attr-dict `:` functional-type($operands, $result)";
  let hasFolder = 1;
}
