// Defines loss functions.
include "dialects/ps/Base.td"

def PS_CrossEntropyOp : PS_TensorOp<"cross_entropy", [AllTypesMatch<["loss", "lse"]>, PS_Row, PS_DifferentiableIn, PS_Partition, PS_Cost, PS_Precision<"Fp32", 1, 0>]> {
  let summary = "computes -log softmax(logits)[label] per row, 0 for ignored labels; and the log-sum-exp";
  let description = [{
    The shapes are `logits` [..., V] and `labels` [...]. A label is in [0, V), or equal to
    `ignore_index`. Both results have the labels' shape. A mean loss is built of other ops: the sum
    of the losses, divided by the number of labels that are not ignored. With `smoothing` s, the
    loss is (1 - s) nll + s mean(lse - logit), where nll is the loss without smoothing and the mean
    is over V.

    Lifespan: created by the importers, or by `ps-add-loss` (level 1); used by code generation.

    Constraints:
    - (cross_entropy_c1) labels have the logits' shape without the last dim.
    - (cross_entropy_c2) labels are integers.
    - (cross_entropy_c3) `ignore_index` lies between -2^53 and 2^53.
    ```mlir
    %l, %lse = ps.cross_entropy %x, %t ignore -100 : tensor<4x8xf32>, tensor<4xi64> -> tensor<4xf32>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$logits, PS_IntTensor:$labels, I64Attr:$ignore_index,
                       DefaultValuedAttr<F64Attr, "0.0">:$smoothing);
  let results = (outs PS_FloatTensor:$loss, PS_FloatTensor:$lse);
  let assemblyFormat = [{
    $logits `,` $labels `ignore` $ignore_index (`smoothing` $smoothing^)? attr-dict `:`
    type($logits) `,` type($labels) `->` type($loss)
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$logits, "::mlir::Value":$labels, "int64_t":$ignoreIndex,
    CArg<"double", "0.0">:$smoothing)>];
}

def PS_CrossEntropyGradOp : PS_TensorOp<"cross_entropy_grad", [AllTypesMatch<["cotangent", "lse"]>, AllTypesMatch<["logits", "result"]>, PS_Row, PS_Partition, PS_Cost, PS_Precision<"Fp32", 1, 1>]> {
  let summary = "computes cotangent * (softmax(logits) - onehot(label)) per row, 0 for ignored labels";
  let description = [{
    Lifespan: created by `ps-autodiff` (level 1); used by code generation.
    ```mlir
    %d = ps.cross_entropy_grad %x, %g, %t, %lse ignore -100 : tensor<4x8xf32>, tensor<4xf32>, tensor<4xi64>
    ```
  }];
  let arguments = (ins PS_FloatTensor:$logits, PS_FloatTensor:$cotangent, PS_IntTensor:$labels,
                       PS_FloatTensor:$lse, I64Attr:$ignore_index,
                       DefaultValuedAttr<F64Attr, "0.0">:$smoothing);
  let results = (outs PS_FloatTensor:$result);
  let assemblyFormat = [{
    $logits `,` $cotangent `,` $labels `,` $lse `ignore` $ignore_index (`smoothing` $smoothing^)? attr-dict `:`
    type($logits) `,` type($cotangent) `,` type($labels)
  }];
}
