// Defines the dialect `ps` with its attributes and types.
#ifndef PARASHARD_DIALECTS_PS_DIALECT_TD
#define PARASHARD_DIALECTS_PS_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"

def PS_Dialect : Dialect {
  let name = "ps";
  let cppNamespace = "::parashard::ps";
  let summary = "Tensor programs over named variables, with shardings on a mesh";
  let description = [{
    `ps` describes a training program on static tensors: a mesh, a set of named variables, and
    functions that read, write and accumulate into the variables. All levels use this dialect. From
    level 3 (partitioned) on, modules also contain ops of the dialect `rank`. A read returns the
    value that the variable has when the function is called. A write takes effect when the function
    returns.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let dependentDialects = ["::mlir::func::FuncDialect"];
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
    void registerOperations();
  }];
}

class PS_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<PS_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

//===----------------------------------------------------------------------===//
// Enums
//===----------------------------------------------------------------------===//

class PS_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::parashard::ps";
  let genSpecializedAttr = 0;
}

def PS_Phase : PS_Enum<"Phase", "phase of a training step", [
    I32EnumAttrCase<"Forward", 0, "forward">,
    I32EnumAttrCase<"BackwardInput", 1, "backward_input">,
    I32EnumAttrCase<"BackwardWeight", 2, "backward_weight">,
    I32EnumAttrCase<"Update", 3, "update">,
    I32EnumAttrCase<"Evaluate", 4, "evaluate">]>;
def PS_PhaseAttr : EnumAttr<PS_Dialect, PS_Phase, "phase"> {
  let assemblyFormat = "`<` $value `>`";
}

def PS_Level : PS_Enum<"Level", "compile level", [
    I32EnumAttrCase<"Imported", 0, "imported">,
    I32EnumAttrCase<"Training", 1, "training">,
    I32EnumAttrCase<"Planned", 2, "planned">,
    I32EnumAttrCase<"Partitioned", 3, "partitioned">,
    I32EnumAttrCase<"Scheduled", 4, "scheduled">,
    I32EnumAttrCase<"Placed", 5, "placed">,
    I32EnumAttrCase<"Native", 6, "native">]>;
def PS_LevelAttr : EnumAttr<PS_Dialect, PS_Level, "level"> {
  let assemblyFormat = "`<` $value `>`";
}

def PS_AxisKind : PS_Enum<"AxisKind", "kind of mesh axis", [
    I32EnumAttrCase<"Data", 0, "data">,
    I32EnumAttrCase<"Tensor", 1, "tensor">,
    I32EnumAttrCase<"Context", 2, "context">,
    I32EnumAttrCase<"Expert", 3, "expert">,
    I32EnumAttrCase<"Pipeline", 4, "pipeline">,
    I32EnumAttrCase<"Multiple", 5, "multiple">]>;

def PS_VariableKind : PS_Enum<"VariableKind", "kind of variable", [
    I32EnumAttrCase<"Parameter", 0, "parameter">,
    I32EnumAttrCase<"Buffer", 1, "buffer">,
    I32EnumAttrCase<"Constant", 2, "constant">,
    I32EnumAttrCase<"Gradient", 3, "gradient">,
    I32EnumAttrCase<"Optimizer", 4, "optimizer">,
    I32EnumAttrCase<"Copy", 5, "copy">,
    I32EnumAttrCase<"Average", 6, "average">,
    I32EnumAttrCase<"Accumulator", 7, "accumulator">,
    I32EnumAttrCase<"Scalar", 8, "scalar">]>;
def PS_VariableKindAttr : EnumAttr<PS_Dialect, PS_VariableKind, "variable_kind"> {
  let assemblyFormat = "$value";
}

// The enum attributes below print a leading space. Op formats write `` before them, so that the
// space is not printed twice.
def PS_ReductionKind : PS_Enum<"ReductionKind", "kind of reduction", [
    I32EnumAttrCase<"Sum", 0, "sum">,
    I32EnumAttrCase<"Max", 1, "max">,
    I32EnumAttrCase<"Min", 2, "min">]>;
def PS_ReductionKindAttr : EnumAttr<PS_Dialect, PS_ReductionKind, "reduction"> {
  let assemblyFormat = "$value";
}

def PS_Predicate : PS_Enum<"Predicate", "kind of comparison", [
    I32EnumAttrCase<"Eq", 0, "eq">, I32EnumAttrCase<"Ne", 1, "ne">,
    I32EnumAttrCase<"Lt", 2, "lt">, I32EnumAttrCase<"Le", 3, "le">,
    I32EnumAttrCase<"Gt", 4, "gt">, I32EnumAttrCase<"Ge", 5, "ge">]>;
def PS_PredicateAttr : EnumAttr<PS_Dialect, PS_Predicate, "predicate"> {
  let assemblyFormat = "$value";
}

def PS_GeluKind : PS_Enum<"GeluKind", "GELU formula", [
    I32EnumAttrCase<"Erf", 0, "erf">, I32EnumAttrCase<"Tanh", 1, "tanh">]>;
def PS_GeluKindAttr : EnumAttr<PS_Dialect, PS_GeluKind, "gelu_kind"> {
  let assemblyFormat = "$value";
}

def PS_Float8Format : PS_Enum<"Float8Format", "8-bit float format", [
    I32EnumAttrCase<"E4M3", 0, "e4m3">, I32EnumAttrCase<"E5M2", 1, "e5m2">]>;
def PS_Float8FormatAttr : EnumAttr<PS_Dialect, PS_Float8Format, "float8_format"> {
  let assemblyFormat = "$value";
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

def PS_FactorAttr : PS_Attr<"Factor", "factor"> {
  let summary = "one factor of a dim: its size, and the mesh axes that shard it";
  let description = [{
    The factor has `size` elements; a size of 0 means the entire dim. The factor is sharded over all
    `axes` together, major to minor. The attribute is printed only inside a sharding.
  }];
  let parameters = (ins "int64_t":$size, ArrayRefParameter<"::mlir::StringAttr">:$axes);
  let hasCustomAssemblyFormat = 1;
}

def PS_DimAttr : PS_Attr<"Dim", "dim"> {
  let summary = "the factors of one tensor dim, major to minor";
  let description = [{
    The list of factors has a normal form: adjacent factors without axes are merged, and the factor
    of a dim with only one factor has size 0. An unsharded dim is one factor of size 0 without axes,
    printed `{}`.
  }];
  let parameters = (ins ArrayRefParameter<"::parashard::ps::FactorAttr">:$factors);
  let skipDefaultBuilders = 1;
  let builders = [AttrBuilder<(ins "::llvm::ArrayRef<FactorAttr>":$factors)>];
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Returns one factor without axes.
    static DimAttr getWhole(::mlir::MLIRContext *context);
    /// Returns one factor that covers the dim, sharded over `axes`.
    static DimAttr getSplit(::mlir::MLIRContext *context, ::llvm::ArrayRef<::mlir::StringAttr> axes);
    /// Returns whether no axis shards the dim.
    bool isWhole() const;
  }];
}

def PS_PartialAttr : PS_Attr<"Partial", "partial"> {
  let summary = "a mesh axis over which a value still has to be reduced";
  let parameters = (ins "::mlir::StringAttr":$axis, "::parashard::ps::ReductionKind":$kind);
  let hasCustomAssemblyFormat = 1;
}

def PS_ShardingAttr : PS_Attr<"Sharding", "sharding"> {
  let summary = "the distribution of a tensor over a mesh";
  let description = [{
    ```
    sharding ::= #ps.sharding<@mesh, [dim, ...] (, partial = {"axis": sum|max|min, ...})?>
    dim      ::= axes | (factor x factor ...)        factor ::= INT axes?        axes ::= {"axis", ...}
    ```
    `(3 x 384 {"tp"})` splits a dim of 1152, in row-major order, into the factors 3 and 384, and
    shards the second factor. A factor of size n over k shards gives each shard c = ceil(n / k)
    elements. Shard r holds the elements [min(r c, n), min((r + 1) c, n)), and the rest of the shard
    is padding. Example: n = 10 over k = 4 shards gives c = 3, and shard 3 holds element 9 and two
    elements of padding. If an axis of kind `multiple` is among the axes, c is rounded up to a
    multiple of this axis's size.
  }];
  let parameters = (ins
    "::mlir::FlatSymbolRefAttr":$mesh,
    ArrayRefParameter<"::parashard::ps::DimAttr">:$dims,
    OptionalArrayRefParameter<"::parashard::ps::PartialAttr">:$partial);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Returns the sharding that is replicated on every axis: `rank` whole dims, not partial.
    static ShardingAttr getReplicated(::mlir::FlatSymbolRefAttr mesh, int64_t rank);
    /// Returns whether no dim is sharded, and the sharding is not partial.
    bool isReplicated() const;
    /// Returns all axes that shard dim `dim`, major to minor over its factors.
    ::llvm::SmallVector<::mlir::StringAttr> getDimAxes(unsigned dim) const;
    /// Returns the same dims without partial axes.
    ShardingAttr withoutPartial() const;
    /// Returns the same dims with these partial axes.
    ShardingAttr withPartial(::llvm::ArrayRef<PartialAttr> partial) const;
  }];
}

def PS_FileAttr : PS_Attr<"File", "file", [TypedAttrInterface]> {
  let summary = "a tensor in a file";
  let description = [{
    Either `#ps.file<"model.pt2:data/weights/weight_0">`, the raw bytes of an archive entry, or
    `#ps.file<"x.safetensors:name">`, a tensor of a safetensors file. With `slice = [lo:hi, ...]`,
    one range per dim, the variable holds only this slice of the tensor in the file. `shape` is then
    the shape of the tensor in the file.
  }];
  let parameters = (ins
    "::mlir::StringAttr":$location,
    OptionalArrayRefParameter<"int64_t">:$shape,
    OptionalArrayRefParameter<"int64_t">:$lower,
    OptionalArrayRefParameter<"int64_t">:$upper,
    AttributeSelfTypeParameter<"type of the variable; none after parsing">:$type);
  let builders = [AttrBuilder<(ins "::mlir::StringAttr":$location,
      CArg<"::llvm::ArrayRef<int64_t>", "{}">:$shape, CArg<"::llvm::ArrayRef<int64_t>", "{}">:$lower,
      CArg<"::llvm::ArrayRef<int64_t>", "{}">:$upper), [{
    return $_get($_ctxt, location, shape, lower, upper, ::mlir::NoneType::get($_ctxt));
  }]>];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
}

def PS_DistributionAttr : PS_Attr<"Distribution", "distribution", [TypedAttrInterface]> {
  let summary = "initial values drawn per element, keyed by (seed, name, global index)";
  let description = "`#ps.distribution<normal, 0.0, 0.02>` (mean, standard deviation), `<uniform, lo, hi>`, or `<value, v, 0.0>` (every element is v).";
  let parameters = (ins StringRefParameter<"normal, uniform or value">:$kind,
                        "::mlir::FloatAttr":$first, "::mlir::FloatAttr":$second,
                        AttributeSelfTypeParameter<"type of the variable; none after parsing">:$type);
  let builders = [AttrBuilder<(ins "::llvm::StringRef":$kind, "::mlir::FloatAttr":$first,
                                   "::mlir::FloatAttr":$second), [{
    return $_get($_ctxt, kind, first, second, ::mlir::NoneType::get($_ctxt));
  }]>];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
}

def PS_AxisAttr : PS_Attr<"Axis", "axis"> {
  let summary = "a named mesh axis with its size and kind";
  let description = [{
    An axis of kind `multiple` has one device. It does not shard a dim, but pads the dim to a
    multiple of the axis size (`ps-align-dims`).
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$size,
                        "::parashard::ps::AxisKind":$kind);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Returns the number of devices along the axis: its size, or 1 for kind `multiple`.
    int64_t getDevices() const { return getKind() == AxisKind::Multiple ? 1 : getSize(); }
  }];
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def PS_RefType : TypeDef<PS_Dialect, "Ref"> {
  let mnemonic = "ref";
  let summary = "a reference to a variable: an argument of a class function, or a result of `rank.fetch`";
  let parameters = (ins "::mlir::RankedTensorType":$tensorType);
  let assemblyFormat = "`<` $tensorType `>`";
}

#endif
