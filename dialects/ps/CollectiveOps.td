// Defines collectives within a step, on local tensors (from level 3 on).
include "dialects/ps/Base.td"

class PS_CollectiveOp<string mnemonic, list<Trait> traits = []>
    : PS_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<PS_LoweringOpInterface, ["getLoweringKind"]>], traits)> {
  let hasVerifier = 1;
}

def PS_AllReduceOp : PS_CollectiveOp<"all_reduce", [SameOperandsAndResultType]> {
  let summary = "reduces a tensor over mesh axes; every member gets the result";
  let description = [{
    The members are the ranks whose coordinates differ only along `axes`, in the order of
    `ps.shard_index`. On CPUs, a sum adds the members' tensors in this order, and 16-bit floats in
    f32. NCCL adds in an order of its own, and 16-bit floats in 16 bits.

    Lifespan: created by `ps-partition` (level 3); used by code generation.
    ```mlir
    %1 = ps.all_reduce sum %0 over ["tp"] : tensor<4x8xf32>
    ```
    - (collective_c1) `axes` are distinct axes of the mesh. All collectives have this constraint.
  }];
  let arguments = (ins PS_ReductionKindAttr:$kind, PS_NumberTensor:$operand, StrArrayAttr:$axes);
  let results = (outs PS_NumberTensor:$result);
  let assemblyFormat = "`` $kind $operand `over` $axes attr-dict `:` type($result)";
}
def PS_ReduceScatterOp : PS_CollectiveOp<"reduce_scatter"> {
  let summary = "reduces a tensor over mesh axes; each member keeps its shard along `dim`";
  let description = [{
    Lifespan: created by `ps-partition` (level 3); used by code generation.

    - (reduce_scatter_c1) the operand's size along `dim` is the result's size along `dim`, times the
      number of shards; the other dims agree.
    ```mlir
    %1 = ps.reduce_scatter sum %0 over ["tp"] dim 1 : tensor<4x8xf32> -> tensor<4x4xf32>
    ```
  }];
  let arguments = (ins PS_ReductionKindAttr:$kind, PS_NumberTensor:$operand, StrArrayAttr:$axes, I64Attr:$dim);
  let results = (outs PS_NumberTensor:$result);
  let assemblyFormat = "`` $kind $operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)";
}
def PS_AllGatherOp : PS_CollectiveOp<"all_gather"> {
  let summary = "concatenates the shards of all members along `dim`, in member order";
  let description = [{
    Lifespan: created by `ps-partition` (level 3); used by code generation.

    - (all_gather_c1) the result's size along `dim` is the operand's size along `dim`, times the
      number of shards; the other dims agree.
    ```mlir
    %1 = ps.all_gather %0 over ["tp"] dim 1 : tensor<4x4xf32> -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins PS_Tensor:$operand, StrArrayAttr:$axes, I64Attr:$dim);
  let results = (outs PS_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)";
}
def PS_AllToAllOp : PS_CollectiveOp<"all_to_all"> {
  let summary = "splits along `split`, sends part i to member i, concatenates the received parts along `concat`";
  let description = [{
    Lifespan: created by `ps-partition` (level 3); used by code generation.

    - (all_to_all_c1) `split` and `concat` are dims of the operand; the size of dim `split` is
      divisible by the number of shards.
    - (all_to_all_c2) the result has the operand's shape, except that dim `split` is divided by the
      number of shards, and dim `concat` is multiplied by this number.
    ```mlir
    %1 = ps.all_to_all %0 over ["tp"] split 0 concat 1 : tensor<4x4xf32> -> tensor<2x8xf32>
    ```
  }];
  let arguments = (ins PS_Tensor:$operand, StrArrayAttr:$axes, I64Attr:$split, I64Attr:$concat);
  let results = (outs PS_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes `split` $split `concat` $concat attr-dict `:` type($operand) `->` type($result)";
}
def PS_PermuteOp : PS_CollectiveOp<"permute", [SameOperandsAndResultType]> {
  let summary = "each member i over `axes` sends its tensor to member targets[i]";
  let description = [{
    Lifespan: no pass creates this op; a module of level 3 written by hand may contain it. Used by
    code generation.

    - (permute_c1) `targets` is a permutation of the members.
    ```mlir
    %1 = ps.permute %0 over ["tp"] to [1, 0] : tensor<4x4xf32>
    ```
  }];
  let arguments = (ins PS_Tensor:$operand, StrArrayAttr:$axes, DenseI64ArrayAttr:$targets);
  let results = (outs PS_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes `to` $targets attr-dict `:` type($result)";
}
def PS_ShardIndexOp : PS_CollectiveOp<"shard_index"> {
  let summary = "returns the linear index of this rank over `axes`; the last axis varies fastest";
  let description = [{
    Lifespan: created by `ps-partition` (level 3); used by code generation.
    ```mlir
    %0 = ps.shard_index over ["dp", "tp"] : tensor<i64>
    ```
  }];
  let arguments = (ins StrArrayAttr:$axes);
  let results = (outs PS_ScalarI64:$result);
  let assemblyFormat = "`over` $axes attr-dict `:` type($result)";
}
def PS_ShardSliceOp : PS_CollectiveOp<"shard_slice"> {
  let summary = "returns this rank's shard of a whole tensor along `dim`, with zeros past the end of the tensor";
  let description = [{
    Shard r over `axes` begins at element r * c, where c is the result's size along `dim`. Example:
    5 elements over 2 shards with c = 3 give shard 1 the last two elements and one zero. The op
    needs no communication.

    Lifespan: created by `ps-partition` (level 3); used by code generation.

    - (shard_slice_c1) `dim` is a dim of the operand.
    - (shard_slice_c2) the shards together cover the operand's `dim`; the other dims agree.
    ```mlir
    %1 = ps.shard_slice %0 over ["tp"] dim 1 : tensor<4x8xf32> -> tensor<4x4xf32>
    ```
  }];
  let arguments = (ins PS_Tensor:$operand, StrArrayAttr:$axes, I64Attr:$dim);
  let results = (outs PS_Tensor:$result);
  let assemblyFormat = "$operand `over` $axes `dim` $dim attr-dict `:` type($operand) `->` type($result)";
}
def PS_WaitOp : PS_CollectiveOp<"wait", [SameOperandsAndResultType]> {
  let summary = "waits for a collective that runs asynchronously";
  let description = [{
    A collective whose result goes to a `ps.wait` is started at its own position, and runs while the
    ops between the collective and the wait run. The collective's operand stays unchanged until the
    wait. A collective without a wait is complete at its own position.

    Lifespan: created by `ps-start-collectives` (level 3) in class functions; used by memory
    planning and code generation.

    - (wait_c1) the operand is the result of a collective that moves data between ranks.
    - (wait_c2) the operand has no other use.
    ```mlir
    %1 = ps.all_reduce sum %0 over ["tp"] : tensor<4x8xf32>
    %2 = ps.wait %1 : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins PS_Tensor:$operand);
  let results = (outs PS_Tensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}
