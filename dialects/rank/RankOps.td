// The ops of the dialect `rank`; included by Rank.td.

def Rank_ProgramOp : Rank_Op<"program", [Symbol, IsolatedFromAbove, NoTerminator, SingleBlock]> {
  let summary = "what the ranks of one pipeline coordinate do when the host calls an entry";
  let description = [{
    `entry` is what the host calls: `step` (M micro-batches and the update) or `evaluate`. With
    `rank.section` the program is several entries that the host calls one by one.
    Lifespan: made by `ps-schedule` (level 4), read by memory planning and code generation.

    Constraints:
    - (program_c1) `pp` is a coordinate of the mesh's pipeline axis (0 when there is none).

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
  let summary = "from here to the next section is an entry of its own";
  let description = [{
    When no loss is in the graph the host gives the cotangents, so forward, backward and update are called apart;
    values that a later section uses are kept in a numbered slot.
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
  let summary = "this rank's part of a program input, for one micro-batch";
  let description = [{
    `sharding` and `global` say which part of which tensor it is (absent: all of it). An input
    that is a cotangent from outside keeps the argument's `ps.cotangent`.
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
  let summary = "gives a value to the host, by name";
  let description = [{
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
    The function's arguments are, in order: the operands, one `!ps.ref` per entry of `variables`, one
    `i64` per entry of `keys`, and the micro-batch where it takes one. `queues` lists the
    queues of the collectives inside the function, in order.
    Lifespan: made by `ps-outline-segments` (level 3), stays to code generation.

    Constraints:
    - (run_c1) the callee names a `func.func`.
    - (run_c2) operands and results have the function's types.
    - (run_c3) `variables` are variables whose local types are those of the function's refs.
    - (run_c4) there is a key for each `i64` argument (less one for the micro-batch).
    - (run_c5) `staged` are results of `rank.fetch` for variables of the run, which has these there.

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
    /// Symbols of the variables, in the order of the function's refs (empty when none).
    ::llvm::SmallVector<::mlir::FlatSymbolRefAttr> getVariableSymbols();
    /// Where the run has a variable that is staged; null for one that it has in its own place.
    ::mlir::Value getStaged(::mlir::FlatSymbolRefAttr variable);
  }];
}

def Rank_StartOp : Rank_Op<"start", [HasParent<"ProgramOp">]> {
  let summary = "starts one collective on a bucket of tensors";
  let description = [{
    The results are defined after `rank.wait` of the token. `all_reduce` and `reduce_scatter` combine
    by `kind`; `reduce_scatter` and `all_gather` act along `dims` (one per operand). Members are the ranks that
    differ in `axes`, or those of the pipeline coordinates `over_pp`, equal in all else. Entries of one queue
    are in one order on every member.

    Constraints:
    - (start_c1) the collective is all_reduce, reduce_scatter or all_gather.
    - (start_c2) one result per operand, of its type for all_reduce.
    - (start_c3) there are axes of the mesh, none twice, or `over_pp`: coordinates of its pipeline axis, ascending,
      the program's own among them.
    - (start_c4) `dims` has one entry per operand for reduce_scatter and all_gather.
    - (start_c5) along its dim an operand of reduce_scatter has the places of its result times the number of shards; of
      all_gather the result has those of its operand.

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
    /// Names of the axes; none where it goes over pipeline coordinates.
    ::llvm::SmallVector<::mlir::StringAttr> getAxisNames();
  }];
}

def Rank_SendOp : Rank_Op<"send", [HasParent<"ProgramOp">]> {
  let summary = "starts to send a tensor to another pipeline coordinate";
  let description = [{
    To the rank there with equal coordinates on all other axes. The operand may be used again after `rank.wait` of the
    token. A queue goes one way between two coordinates; its entries are in one order on both. The message says which
    crossing value of which micro-batch it is. Lifespan: made by `ps-schedule` (level 4), read by memory planning.

    Constraints:
    - (send_c1) the other coordinate is one of the mesh's pipeline axis, and not the program's own.

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
  let summary = "starts to receive a tensor from another pipeline coordinate";
  let description = [{
    The other end of `rank.send`: the result is defined after `rank.wait` of the token. Lifespan: as that.

    Constraints:
    - (recv_c1) the other coordinate is one of the mesh's pipeline axis, and not the program's own.

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
  let summary = "starts to copy variables from the host's memory to the device's";
  let description = [{
    A result is a place in the device's memory that runs have in the variable's stead (`staged`), until `rank.offload` brings
    it back. It holds the variable's value after `rank.wait` of the token.
    Lifespan: made by `ps-offload` (level 4), stays to code generation.

    Constraints:
    - (fetch_c1) there are variables, and a result for each.
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
    /// The variable that a result stands for.
    ::mlir::FlatSymbolRefAttr getVariable(::mlir::OpResult result);
  }];
}

def Rank_OffloadOp : Rank_Op<"offload", [HasParent<"ProgramOp">]> {
  let summary = "starts to copy variables back to the host's memory";
  let description = [{
    To where `rank.fetch` found them. They are there, and their places in the device's memory are free, after `rank.wait` of
    the token. The example stands at `rank.fetch`; lifespan as that.

    Constraints:
    - (offload_c1) there are operands, each a result of `rank.fetch`.
  }];
  let arguments = (ins Variadic<PS_RefType>:$staged);
  let results = (outs Rank_TokenType:$token);
  let assemblyFormat = "$staged attr-dict `:` type($staged)";
  let hasVerifier = 1;
}

def Rank_StashOp : Rank_Op<"stash", [HasParent<"ProgramOp">]> {
  let summary = "starts to copy values from the device's memory to the host's";
  let description = [{
    A result is the operand's value as it lies in the host's memory, where nothing but `rank.unstash` reaches it. The
    operands' places are free after `rank.wait` of the token. Lifespan: made by `ps-offload` (level 4), stays to code
    generation.

    Constraints:
    - (stash_c1) there are operands, and for each a result of its type.

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
  let summary = "starts to copy values back from the host's memory to the device's";
  let description = [{
    A result is again the value that was stashed, and may be used after `rank.wait` of the token; what it had of the
    host's memory is free then. The example stands at `rank.stash`; lifespan as that.

    Constraints:
    - (unstash_c1) there are operands, each a result of `rank.stash`, and for each a result of its type.
  }];
  let arguments = (ins Variadic<PS_Tensor>:$operands);
  let results = (outs Variadic<PS_Tensor>:$results, Rank_TokenType:$token);
  let assemblyFormat = "$operands attr-dict `:` type($operands) `->` type($results)";
  let hasVerifier = 1;
}

def Rank_WaitOp : Rank_Op<"wait", [HasParent<"ProgramOp">]> {
  let summary = "blocks the program until what the token stands for is done";
  let description = [{
    The example stands at `rank.start`.
    - (wait_c1) a token is waited for once.
  }];
  let arguments = (ins Rank_TokenType:$token);
  let assemblyFormat = "$token attr-dict";
  let hasVerifier = 1;
}
