// Mesh, variables, and the ops that touch them.
include "dialects/ps/Base.td"

def PS_MeshOp : PS_Op<"mesh", [Symbol]> {
  let summary = "a named mesh of devices";
  let description = [{
    The axes, the last varying fastest. At most one axis is of kind `pipeline`.
    Lifespan: made by `ps-compile` or the user at level 1, stays to the end.

    Constraints:
    - (mesh_c1) axis names are unique.
    - (mesh_c2) axis sizes are at least 1.
    - (mesh_c3) at most one axis is of kind pipeline, and one of kind multiple.

    ```mlir
    ps.mesh @mesh <"dp" = 2 : data, "tp" = 2 : tensor>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypedArrayAttrBase<PS_AxisAttr, "axes">:$axes);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Devices along an axis; 0 when the mesh has none of that name.
    int64_t getAxisSize(::llvm::StringRef axis);
    /// Product of the axes' devices.
    int64_t getDeviceCount();
    /// Names of the axes of a kind, in mesh order.
    ::llvm::SmallVector<::mlir::StringAttr> getAxesOfKind(AxisKind kind);
    /// The number of shards over `axes`.
    int64_t getShards(::llvm::ArrayRef<::mlir::StringAttr> axes);
    /// The places that each shard of a factor of `size` over `axes` has, padding included.
    int64_t getShardSize(int64_t size, ::llvm::ArrayRef<::mlir::StringAttr> axes);
  }];
}

def PS_VariableOp : PS_Op<"variable", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "named state that lives across calls";
  let description = [{
    A parameter, buffer, constant, gradient, optimizer state, copy, average, accumulator or scalar.
    `names` are the names in the model (several when tied; the first is used in messages and files);
    `of` is the variable this one belongs to; `init` its initial value: `#ps.file`, `#ps.distribution`,
    or a constant. `frozen` parameters get no gradient; `transient` ones are not saved in weight files
    (a non-persistent buffer). Lifespan: from level 0 to the end; gradients, optimizer state and
    accumulators are made by `ps-autodiff` and `ps-optimizer`.

    Constraints:
    - (variable_c1) `of` names a variable.
    - (variable_c2) gradient, optimizer, copy and average need `of`.
    - (variable_c3) a gradient's type is that of its variable.
    - (variable_c4) a constant `init` has the variable's type.

    ```mlir
    ps.variable parameter @wte names ["wte.weight", "lm_head.weight"] init #ps.file<"m.pt2:data/weights/weight_0"> : tensor<8x4xf32>
    ps.variable gradient @wte.grad of @wte : tensor<8x4xf32>
    ps.variable scalar @lr init dense<1.0e-3> : tensor<f32>
    ps.variable constant @table frozen {ps.note} : tensor<4xf32>
    ```
  }];
  let arguments = (ins PS_VariableKindAttr:$kind, SymbolNameAttr:$sym_name,
      OptionalAttr<StrArrayAttr>:$names, OptionalAttr<FlatSymbolRefAttr>:$of,
      OptionalAttr<AnyAttr>:$init, UnitAttr:$frozen, UnitAttr:$transient, TypeAttr:$type);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
    /// The name used in messages and files: the first of `names`, else the symbol.
    ::llvm::StringRef getDisplayName();
    ShardingAttr getSharding();
    void setSharding(ShardingAttr sharding);
  }];
}

class PS_VariableAccess<string mnemonic, list<Trait> traits>
    : PS_Op<mnemonic, !listconcat(traits, [DeclareOpInterfaceMethods<SymbolUserOpInterface>])> {
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def PS_ReadOp : PS_VariableAccess<"read", [Pure]> {
  let summary = "the value of a variable at entry of the function";
  let description = [{
    Names a variable, or at level 3, inside a class function, a `!ps.ref` argument.

    Constraints:
    - (read_c1) exactly one of symbol and ref is given.
    - (read_c2) the symbol names a `ps.variable` of the result's type (of its local type from level 3 on).

    ```mlir
    %w = ps.read @wte : tensor<8x4xf32>
    %v = ps.read %ref : !ps.ref<tensor<8x4xf32>>
    ```
  }];
  let arguments = (ins OptionalAttr<FlatSymbolRefAttr>:$variable, Optional<PS_RefType>:$ref);
  let results = (outs PS_Tensor:$result);
}

def PS_WriteOp : PS_VariableAccess<"write", [AttrSizedOperandSegments, MemoryEffects<[MemWrite]>]> {
  let summary = "the value of a variable from the function's exit on";
  let description = [{
    At most one write per variable and function; `if %ok` makes it conditional on a scalar bool.

    Constraints: as `ps.read`, and
    - (write_c1) at most one write per variable in a function.

    ```mlir
    ps.write @wte, %new if %ok : tensor<8x4xf32>
    ```
  }];
  let arguments = (ins OptionalAttr<FlatSymbolRefAttr>:$variable, Optional<PS_RefType>:$ref,
                       PS_Tensor:$value, Optional<PS_ScalarBool>:$condition);
  let results = (outs);
}

def PS_AccumulateOp : PS_VariableAccess<"accumulate", [MemoryEffects<[MemWrite]>]> {
  let summary = "adds to a variable at the function's exit; the first of a step sets it";
  let description = [{
    With `by max` or `by min` the larger or smaller of what is there and the value is kept; what is there at first is the
    variable's initial value, or what `@update` wrote. At level 3 a class function has a read, `ps.max` and a write instead.
    ```mlir
    ps.accumulate @wte.grad, %g : tensor<8x4xf32>
    ps.accumulate @fc.amax, %m by max : tensor<f32>
    ```
  }];
  let arguments = (ins OptionalAttr<FlatSymbolRefAttr>:$variable, Optional<PS_RefType>:$ref,
                       PS_Tensor:$value, DefaultValuedAttr<PS_ReductionKindAttr, "ReductionKind::Sum">:$kind);
  let builders = [OpBuilder<(ins "::mlir::FlatSymbolRefAttr":$variable, "::mlir::Value":$ref, "::mlir::Value":$value), [{
    build($_builder, $_state, variable, ref, value, ReductionKind::Sum);
  }]>];
  let results = (outs);
}
