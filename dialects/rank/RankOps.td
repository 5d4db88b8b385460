// Defines the ops of the dialect `rank`. Included by Rank.td.

def Rank_ProgramOp : Rank_Op<"program", [Symbol, IsolatedFromAbove, NoTerminator, SingleBlock]> {
  let summary = "the program that the ranks of one pipeline coordinate run when the host calls an entry";
  let description = [{
    `entry` is the name of the entry that the host calls: `step` (all micro-batches and the update),
    `evaluate`, or `forward` (with `--loss none`). `rank.section` divides a program into several
    entries that the host calls one by one.

    Lifespan: created by `ps-schedule` (level 4); used by memory planning and code generation.

    Constraints:
    - (program_c1) `pp` is a coordinate of the mesh's pipeline axis (0 if the mesh has no such
      axis).

    ```mlir
    rank.program @pp0 pp = 0 entry "step" {
      %x = rank.input "x" micro_batch 0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$pp, StrAttr:$entry);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `pp` `=` $pp `entry` $entry attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Rank_SectionOp : Rank_Op<"section", [HasParent<"ProgramOp">]> {
  let summary = "begins a separate entry, up to the next section or the end of the program";
  let description = [{
    With `--loss none`, the host passes the cotangents, and calls forward, backward and update
    separately. Values that later sections use are kept in a slot, which is a part of the arena. With
    each call, the host passes the number of a slot, so that several forwards can wait for their
    backward.

    Lifespan: created by `ps-schedule` (level 4); used by code generation.
    ```mlir
    rank.program @pp0 pp = 0 entry "forward" {
      rank.section "backward"
    }
    ```
  }];
  let arguments = (ins StrAttr:$entry);
  let assemblyFormat = "$entry attr-dict";
}

def Rank_InputOp : Rank_Op<"input", [Pure, HasParent<"ProgramOp">]> {
  let summary = "this rank's part of a program input for one micro-batch";
  let description = [{
    The result is the rank's shard of a tensor of type `global` under `sharding`. Without these two
    attributes, the result is the whole tensor. A cotangent that the host passes has the attribute
    `ps.cotangent`.

    Lifespan: created by `ps-schedule` (level 4); used by code generation.
    ```mlir
    rank.program @pp0 pp = 0 entry "step" {
      %x = rank.input "x" micro_batch 1 : tensor<4x8xf32> of tensor<8x8xf32> as #ps.sharding<@mesh, [{"dp"}, {} ]>
    }
    ```
    - (input_c1) the result's type is the local type of `global` under `sharding`.
  }];
  let arguments = (ins StrAttr:$input, I64Attr:$micro_batch, OptionalAttr<TypeAttr>:$global,
                       OptionalAttr<PS_ShardingAttr>:$sharding);
  let results = (outs PS_Tensor:$result);
  let assemblyFormat = [{
    $input `micro_batch` $micro_batch attr-dict `:` type($result) (`of` $global^)? (`as` $sharding^)?
  }];
  let hasVerifier = 1;
}

def Rank_OutputOp : Rank_Op<"output", [HasParent<"ProgramOp">, MemoryEffects<[MemWrite]>]> {
  let summary = "returns a value to the host by name";
  let description = [{
    Lifespan: created by `ps-schedule` (level 4); used by code generation.
    ```mlir
    rank.program @pp0 pp = 0 entry "evaluate" {
      %y = rank.input "x" micro_batch 0 : tensor<4x8xf32>
      rank.output "logits" micro_batch 0 %y : tensor<4x8xf32> of tensor<8x8xf32> as #ps.sharding<@mesh, [{"dp"}, {} ]>
    }
    ```
    - (output_c1) the value's type is the local type of `global` under `sharding`.
  }];
  let arguments = (ins StrAttr:$output, I64Attr:$micro_batch, PS_Tensor:$value,
                       OptionalAttr<TypeAttr>:$global, OptionalAttr<PS_ShardingAttr>:$sharding);
  let assemblyFormat = [{
    $output `micro_batch` $micro_batch $value attr-dict `:` type($value) (`of` $global^)? (`as` $sharding^)?
  }];
  let hasVerifier = 1;
}

def Rank_RunOp : Rank_Op<"run", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a class function on the variables and keys of one segment";
  let description = [{
    The function's arguments are, in order: the operands, one `!ps.ref` per entry of `variables`,
    one `i64` per entry of `keys` (keys of random ops), and the micro-batch if the function takes
    one. `queues` lists the queues of the collectives inside the function, in order.

    Lifespan: created by `ps-outline-segments` (level 3); used by code generation.

    Constraints:
    - (run_c1) the callee names a `func.func`.
    - (run_c2) operands and results have the function's types.
    - (run_c3) the local types of `variables` equal the types of the function's refs.
    - (run_c4) there is one key per `i64` argument, except the argument of the micro-batch.
    - (run_c5) each `staged` operand is a result of `rank.fetch` for a variable of the run. The run
      accesses the variable in the fetched buffer.

    ```mlir
    ps.variable parameter @h.17.w : tensor<8x8xf32>
    func.func private @block.forward(tensor<4x8xf32>, !ps.ref<tensor<8x8xf32>>, i64, i64)
        -> (tensor<4x8xf32>, tensor<4x4xf32>)
    func.func @stage0.micro_batch(%x: tensor<4x8xf32>, %mb: i64) {
      %y, %s = rank.run @block.forward segment 17 micro_batch %mb (%x) variables [@h.17.w] keys [17]
          : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x4xf32>)
      return
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, OptionalAttr<I64Attr>:$segment, Optional<I64>:$micro_batch,
      Variadic<PS_Tensor>:$inputs, Variadic<PS_RefType>:$staged,
      OptionalAttr<TypedArrayAttrBase<FlatSymbolRefAttr, "symbols">>:$variables,
      OptionalAttr<DenseI64ArrayAttr>:$keys, OptionalAttr<StrArrayAttr>:$queues);
  let results = (outs Variadic<PS_Tensor>:$results);
  let assemblyFormat = [{
    $callee (`segment` $segment^)? (`micro_batch` $micro_batch^)? `(` $inputs `)` (`variables` $variables^)?
    (`staged` `(` $staged^ `:` type($staged) `)`)? (`keys` $keys^)? (`queues` $queues^)? attr-dict `:` functional-type($inputs, $results)
  }];
  let extraClassDeclaration = [{
    /// Returns the symbols of the variables, in the order of the function's refs.
    ::llvm::SmallVector<::mlir::FlatSymbolRefAttr> getVariableSymbols();
    /// Returns the staged operand of a variable, or null if the run accesses the variable in place.
    ::mlir::Value getStaged(::mlir::FlatSymbolRefAttr variable);
  }];
}

def Rank_StartOp : Rank_Op<"start", [HasParent<"ProgramOp">]> {
  let summary = "starts one collective on a bucket of tensors";
  let description = [{
    The results are defined after `rank.wait` of the token. `all_reduce` and `reduce_scatter` reduce
    by `kind`. `reduce_scatter` and `all_gather` act along `dims` (one per operand). With `axes`,
    the members of the collective are the ranks whose coordinates differ only along these axes. With
    `over_pp`, the members differ only in their pipeline coordinate, which is one of `over_pp`. All
    members start the collectives of one queue in the same order.

    Lifespan: created by `ps-schedule` (level 4); used by code generation.

    Constraints:
    - (start_c1) the collective is all_reduce, reduce_scatter or all_gather. The first two need a
      `kind`. Only all_reduce may have `over_pp`.
    - (start_c2) there is one result per operand, of the same type for all_reduce.
    - (start_c3) the op has either `axes`, which are distinct axes of the mesh, or `over_pp`:
      ascending coordinates of the pipeline axis, including the program's own coordinate.
    - (start_c4) `dims` has one entry per operand for reduce_scatter and all_gather, and none for
      all_reduce.
    - (start_c5) along its dim, an operand of reduce_scatter is as large as all shards of its result
      together. For all_gather, a result is as large as all shards of its operand together.

    ```mlir
    ps.variable gradient @a.grad of @a : tensor<4xf32>
    ps.variable parameter @a : tensor<4xf32>
    rank.program @pp0 pp = 0 entry "step" {
      %a = ps.read @a.grad : tensor<4xf32>
      %b = ps.read @a : tensor<4xf32>
      %r:2, %t = rank.start "all_reduce" (%a, %b) kind sum axes ["dp"] queue "dp"
          : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
      rank.wait %t
    }
    ```
  }];
  let arguments = (ins StrAttr:$collective, Variadic<PS_Tensor>:$operands,
      OptionalAttr<PS_ReductionKindAttr>:$kind, OptionalAttr<StrArrayAttr>:$axes,
      OptionalAttr<DenseI64ArrayAttr>:$over_pp, OptionalAttr<DenseI64ArrayAttr>:$dims, StrAttr:$queue);
  let results = (outs Variadic<PS_Tensor>:$results, Rank_TokenType:$token);
  let assemblyFormat = [{
    $collective `(` $operands `)` (`kind` `` $kind^)? (`axes` $axes^)? (`over_pp` $over_pp^)? (`dims` $dims^)?
    `queue` $queue attr-dict `:` functional-type($operands, $results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the names of the axes; empty for a collective over pipeline coordinates.
    ::llvm::SmallVector<::mlir::StringAttr> getAxisNames();
  }];
}

def Rank_SendOp : Rank_Op<"send", [HasParent<"ProgramOp">]> {
  let summary = "starts sending a tensor to another pipeline coordinate";
  let description = [{
    Sends to the rank with the pipeline coordinate `pp` and the sender's coordinates on all other
    axes. The operand may be reused after `rank.wait` of the token. Each queue has one sending and
    one receiving coordinate, and its sends and receives are in the same order. `message` identifies
    the value that is sent, and its micro-batch.

    Lifespan: created by `ps-schedule` (level 4); used by code generation.

    Constraints:
    - (send_c1) `pp` is another coordinate of the mesh's pipeline axis.

    ```mlir
    ps.mesh @mesh <"pp" = 2 : pipeline>
    rank.program @pp0 pp = 0 entry "step" {
      %x = rank.input "x" micro_batch 3 : tensor<4xf32>
      %t = rank.send %x to pp 1 queue "act.0-1" message (value = 4, micro_batch = 3) : tensor<4xf32>
      rank.wait %t
    }
    ```
  }];
  let arguments = (ins PS_Tensor:$operand, I64Attr:$pp, StrAttr:$queue, I64Attr:$value, I64Attr:$micro_batch);
  let results = (outs Rank_TokenType:$token);
  let assemblyFormat = [{
    $operand `to` `pp` $pp `queue` $queue `message` `(` `value` `=` $value `,` `micro_batch` `=` $micro_batch `)`
    attr-dict `:` type($operand)
  }];
  let hasVerifier = 1;
}

def Rank_RecvOp : Rank_Op<"recv", [HasParent<"ProgramOp">]> {
  let summary = "starts receiving a tensor from another pipeline coordinate";
  let description = [{
    The counterpart of `rank.send`. The result is defined after `rank.wait` of the token.

    Lifespan: created by `ps-schedule` (level 4); used by code generation.

    Constraints:
    - (recv_c1) `pp` is another coordinate of the mesh's pipeline axis.

    ```mlir
    ps.mesh @mesh <"pp" = 2 : pipeline>
    rank.program @pp1 pp = 1 entry "step" {
      %x, %t = rank.recv from pp 0 queue "act.0-1" message (value = 4, micro_batch = 3) : tensor<4xf32>
      rank.wait %t
    }
    ```
  }];
  let arguments = (ins I64Attr:$pp, StrAttr:$queue, I64Attr:$value, I64Attr:$micro_batch);
  let results = (outs PS_Tensor:$result, Rank_TokenType:$token);
  let assemblyFormat = [{
    `from` `pp` $pp `queue` $queue `message` `(` `value` `=` $value `,` `micro_batch` `=` $micro_batch `)`
    attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def Rank_FetchOp : Rank_Op<"fetch", [HasParent<"ProgramOp">]> {
  let summary = "starts copying variables from host memory to device memory";
  let description = [{
    Each result is a buffer in device memory. The buffer holds the variable's value
    after `rank.wait` of the token. From then until `rank.offload`, each `rank.run` that accesses the
    variable has the buffer as a `staged` operand, and uses it instead of the variable.

    Lifespan: created by `ps-offload` (level 4); used by code generation.

    Constraints:
    - (fetch_c1) there is at least one variable, and one result per variable.
    - (fetch_c2) a result is a reference to a tensor of the variable's local type.

    ```mlir
    ps.variable parameter @a : tensor<4xf32>
    ps.variable optimizer @a.mean of @a : tensor<4xf32>
    func.func private @update(!ps.ref<tensor<4xf32>>, !ps.ref<tensor<4xf32>>)
    rank.program @pp0 pp = 0 entry "step" {
      %m, %t = rank.fetch [@a.mean] : !ps.ref<tensor<4xf32>>
      rank.wait %t
      rank.run @update() variables [@a, @a.mean] staged(%m : !ps.ref<tensor<4xf32>>) : () -> ()
      %u = rank.offload %m : !ps.ref<tensor<4xf32>>
      rank.wait %u
    }
    ```
  }];
  let arguments = (ins TypedArrayAttrBase<FlatSymbolRefAttr, "symbols">:$variables);
  let results = (outs Variadic<PS_RefType>:$results, Rank_TokenType:$token);
  let assemblyFormat = "$variables attr-dict `:` type($results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the variable that a result stages.
    ::mlir::FlatSymbolRefAttr getVariable(::mlir::OpResult result);
  }];
}

def Rank_OffloadOp : Rank_Op<"offload", [HasParent<"ProgramOp">]> {
  let summary = "starts copying variables back to host memory";
  let description = [{
    Copies each buffer back to the host memory of the variable that `rank.fetch` copied. After
    `rank.wait` of the token, the copies are complete and the device buffers are free.

    Lifespan: created by `ps-offload` (level 4); used by code generation.

    Constraints:
    - (offload_c1) there is at least one operand; each is a result of `rank.fetch`.

    ```mlir
    ps.variable optimizer @a.mean of @a : tensor<4xf32>
    ps.variable parameter @a : tensor<4xf32>
    rank.program @pp0 pp = 0 entry "step" {
      %m, %t = rank.fetch [@a.mean] : !ps.ref<tensor<4xf32>>
      rank.wait %t
      %u = rank.offload %m : !ps.ref<tensor<4xf32>>
      rank.wait %u
    }
    ```
  }];
  let arguments = (ins Variadic<PS_RefType>:$staged);
  let results = (outs Rank_TokenType:$token);
  let assemblyFormat = "$staged attr-dict `:` type($staged)";
  let hasVerifier = 1;
}

def Rank_StashOp : Rank_Op<"stash", [HasParent<"ProgramOp">]> {
  let summary = "starts copying values from device memory to host memory";
  let description = [{
    Each result is the copy of an operand in host memory, which only `rank.unstash` may use. The
    operands' buffers are free after `rank.wait` of the token.

    Lifespan: created by `ps-offload` (level 4); used by code generation.

    Constraints:
    - (stash_c1) there is at least one operand, and one result of the same type per operand.

    ```mlir
    rank.program @pp0 pp = 0 entry "step" {
      %x = rank.input "x" micro_batch 0 : tensor<4xf32>
      %held, %t = rank.stash %x : tensor<4xf32> -> tensor<4xf32>
      rank.wait %t
      %again, %u = rank.unstash %held : tensor<4xf32> -> tensor<4xf32>
      rank.wait %u
      rank.output "x" micro_batch 0 %again : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<PS_Tensor>:$operands);
  let results = (outs Variadic<PS_Tensor>:$results, Rank_TokenType:$token);
  let assemblyFormat = "$operands attr-dict `:` type($operands) `->` type($results)";
  let hasVerifier = 1;
}

def Rank_UnstashOp : Rank_Op<"unstash", [HasParent<"ProgramOp">]> {
  let summary = "starts copying values back from host memory to device memory";
  let description = [{
    Each result is a copy of the stashed value in device memory, and may be used after `rank.wait`
    of the token. The host memory is then free.

    Lifespan: created by `ps-offload` (level 4); used by code generation.

    Constraints:
    - (unstash_c1) there is at least one operand, each a result of `rank.stash`, and one result of
      the same type per operand.

    ```mlir
    rank.program @pp0 pp = 0 entry "step" {
      %x = rank.input "x" micro_batch 0 : tensor<4xf32>
      %held, %t = rank.stash %x : tensor<4xf32> -> tensor<4xf32>
      rank.wait %t
      %again, %u = rank.unstash %held : tensor<4xf32> -> tensor<4xf32>
      rank.wait %u
    }
    ```
  }];
  let arguments = (ins Variadic<PS_Tensor>:$operands);
  let results = (outs Variadic<PS_Tensor>:$results, Rank_TokenType:$token);
  let assemblyFormat = "$operands attr-dict `:` type($operands) `->` type($results)";
  let hasVerifier = 1;
}

def Rank_WaitOp : Rank_Op<"wait", [HasParent<"ProgramOp">]> {
  let summary = "blocks the program until the started operation of the token is complete";
  let description = [{
    Lifespan: created with the op of the token (level 4); used by code generation.

    - (wait_c1) at most one `rank.wait` uses a token.
    ```mlir
    rank.program @pp0 pp = 0 entry "step" {
      %x = rank.input "x" micro_batch 0 : tensor<4xf32>
      %held, %t = rank.stash %x : tensor<4xf32> -> tensor<4xf32>
      rank.wait %t
    }
    ```
  }];
  let arguments = (ins Rank_TokenType:$token);
  let assemblyFormat = "$token attr-dict";
  let hasVerifier = 1;
}
