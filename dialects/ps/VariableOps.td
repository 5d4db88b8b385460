// Defines the mesh, variables, and the ops that access variables.
include "dialects/ps/Base.td"

def PS_MeshOp : PS_Op<"mesh", [Symbol]> {
  let summary = "a named mesh of devices";
  let description = [{
    Lists the axes of the mesh. In the order of devices, the coordinate along the last axis varies
    fastest. At most one axis is of kind `pipeline`.

    Lifespan: created by `ps-set-mesh` (level 2) or the user; kept until code generation.

    Constraints:
    - (mesh_c1) axis names are unique.
    - (mesh_c2) axis sizes are at least 1.
    - (mesh_c3) at most one axis is of kind pipeline, and at most one of kind multiple.

    ```mlir
    ps.mesh @mesh <"dp" = 2 : data, "tp" = 2 : tensor>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypedArrayAttrBase<PS_AxisAttr, "axes">:$axes);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the number of devices along an axis, or 0 if the mesh has no such axis.
    int64_t getAxisSize(::llvm::StringRef axis);
    /// Returns the number of devices of the mesh.
    int64_t getDeviceCount();
    /// Returns the names of the axes of a kind, in mesh order.
    ::llvm::SmallVector<::mlir::StringAttr> getAxesOfKind(AxisKind kind);
    /// Returns the number of shards over `axes`.
    int64_t getShards(::llvm::ArrayRef<::mlir::StringAttr> axes);
    /// Returns the number of elements in each shard, including padding, if a factor of `size`
    /// elements is sharded over `axes`.
    int64_t getShardSize(int64_t size, ::llvm::ArrayRef<::mlir::StringAttr> axes);
  }];
}

def PS_VariableOp : PS_Op<"variable", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "named state that persists across calls";
  let description = [{
    A variable is a parameter, buffer, constant, gradient, optimizer state, copy, average,
    accumulator or scalar.
    - `names`: the names in the model; a tied parameter has several. Messages and files use the
      first name.
    - `of`: the variable that this variable belongs to, such as the parameter of a gradient.
    - `init`: the initial value, as `#ps.file`, `#ps.distribution` or a constant.
    - `frozen`: a parameter without a gradient.
    - `transient`: not saved in weight files (a non-persistent buffer).

    Lifespan: from level 0 until code generation. `ps-autodiff`, `ps-optimizer` and `ps-precision`
    create gradients, optimizer state, averages, copies and accumulators.

    Constraints:
    - (variable_c1) `of` names a variable.
    - (variable_c2) gradient, optimizer, copy and average need `of`.
    - (variable_c3) a gradient has the type of its variable.
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
    /// Returns the name for messages and files: the first of `names`, else the symbol.
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
  let summary = "reads a variable";
  let description = [{
    In a function, the result is the value that the variable has when the function is called. In a
    `rank.program`, it is the value at this point of the program.

    The op names the variable by its symbol. At level 3, class functions read a `!ps.ref` argument
    instead of a symbol. The caller binds this argument to a variable.

    Lifespan: created by the importers (level 0), and by passes up to level 4; used by code
    generation.

    Constraints:
    - (read_c1) exactly one of the symbol and the ref is given.
    - (read_c2) the symbol names a `ps.variable`. The result has the type of the variable (from
      level 3 on, the variable's local type), or the type that the ref refers to.

    ```mlir
    %w = ps.read @wte : tensor<8x4xf32>
    %v = ps.read %ref : !ps.ref<tensor<8x4xf32>>
    ```
  }];
  let arguments = (ins OptionalAttr<FlatSymbolRefAttr>:$variable, Optional<PS_RefType>:$ref);
  let results = (outs PS_Tensor:$result);
}

def PS_WriteOp : PS_VariableAccess<"write", [AttrSizedOperandSegments, MemoryEffects<[MemWrite]>]> {
  let summary = "sets a variable when the function returns";
  let description = [{
    In a `rank.program`, the variable is set at this point of the program. `if %ok` makes the write
    conditional on a scalar bool.

    Lifespan: created by the importers (level 0), and by passes up to level 3; used by code
    generation.

    Has the constraints of `ps.read`, and:
    - (write_c1) a function has at most one write per variable.

    ```mlir
    ps.write @wte, %new if %ok : tensor<8x4xf32>
    ```
  }];
  let arguments = (ins OptionalAttr<FlatSymbolRefAttr>:$variable, Optional<PS_RefType>:$ref,
                       PS_Tensor:$value, Optional<PS_ScalarBool>:$condition);
  let results = (outs);
}

def PS_AccumulateOp : PS_VariableAccess<"accumulate", [MemoryEffects<[MemWrite]>]> {
  let summary = "adds to a variable when the function returns; the first accumulation of a step overwrites the variable";
  let description = [{
    `by max` or `by min` keeps the larger or smaller of the variable and the value. Such a variable
    starts a step with its initial value, or with the value that `@update` wrote in the last step.
    At level 3, class functions use a read, a `ps.max` or `ps.min`, and a write instead.

    Lifespan: created by `ps-autodiff` and `ps-precision` (levels 1 and 2); used by code generation.
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
