// The dialect `ps`: what it is, and its attributes and types.
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
    `ps` describes a training program on static tensors: a mesh, a set of named
    variables, and functions that read, write and accumulate into them. It is the
    dialect of levels 0 (imported) to 3 (partitioned). Everything inside a function
    is pure SSA; effects on variables happen at the function's exit.
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

def PS_Phase : PS_Enum<"Phase", "what an op is for within a step", [
    I32EnumAttrCase<"Forward", 0, "forward">,
    I32EnumAttrCase<"BackwardInput", 1, "backward_input">,
    I32EnumAttrCase<"BackwardWeight", 2, "backward_weight">,
    I32EnumAttrCase<"Update", 3, "update">,
    I32EnumAttrCase<"Evaluate", 4, "evaluate">]>;
def PS_PhaseAttr : EnumAttr<PS_Dialect, PS_Phase, "phase"> {
  let assemblyFormat = "`<` $value `>`";
}

def PS_Level : PS_Enum<"Level", "how far a module has come in the compile", [
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

def PS_AxisKind : PS_Enum<"AxisKind", "what a mesh axis is used for", [
    I32EnumAttrCase<"Data", 0, "data">,
    I32EnumAttrCase<"Tensor", 1, "tensor">,
    I32EnumAttrCase<"Context", 2, "context">,
    I32EnumAttrCase<"Expert", 3, "expert">,
    I32EnumAttrCase<"Pipeline", 4, "pipeline">,
    I32EnumAttrCase<"Multiple", 5, "multiple">]>;

def PS_VariableKind : PS_Enum<"VariableKind", "the role of a variable", [
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

// Attributes of one enum print a space first: before them an op format has `` in place of its own.
def PS_ReductionKind : PS_Enum<"ReductionKind", "how values are combined", [
    I32EnumAttrCase<"Sum", 0, "sum">,
    I32EnumAttrCase<"Max", 1, "max">,
    I32EnumAttrCase<"Min", 2, "min">]>;
def PS_ReductionKindAttr : EnumAttr<PS_Dialect, PS_ReductionKind, "reduction"> {
  let assemblyFormat = "$value";
}

def PS_Predicate : PS_Enum<"Predicate", "an ordered comparison", [
    I32EnumAttrCase<"Eq", 0, "eq">, I32EnumAttrCase<"Ne", 1, "ne">,
    I32EnumAttrCase<"Lt", 2, "lt">, I32EnumAttrCase<"Le", 3, "le">,
    I32EnumAttrCase<"Gt", 4, "gt">, I32EnumAttrCase<"Ge", 5, "ge">]>;
def PS_PredicateAttr : EnumAttr<PS_Dialect, PS_Predicate, "predicate"> {
  let assemblyFormat = "$value";
}

def PS_GeluKind : PS_Enum<"GeluKind", "the formula of the GELU", [
    I32EnumAttrCase<"Erf", 0, "erf">, I32EnumAttrCase<"Tanh", 1, "tanh">]>;
def PS_GeluKindAttr : EnumAttr<PS_Dialect, PS_GeluKind, "gelu_kind"> {
  let assemblyFormat = "$value";
}

def PS_Float8Format : PS_Enum<"Float8Format", "which of the two 8-bit floats", [
    I32EnumAttrCase<"E4M3", 0, "e4m3">, I32EnumAttrCase<"E5M2", 1, "e5m2">]>;
def PS_Float8FormatAttr : EnumAttr<PS_Dialect, PS_Float8Format, "float8_format"> {
  let assemblyFormat = "$value";
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

def PS_FactorAttr : PS_Attr<"Factor", "factor"> {
  let summary = "one factor of a dim: its size and the mesh axes that split it";
  let description = [{
    `size` elements (0 when the factor is the whole dim and its size is the dim's),
    split over the product of `axes`, major to minor. Printed inside a sharding only.
  }];
  let parameters = (ins "int64_t":$size, ArrayRefParameter<"::mlir::StringAttr">:$axes);
  let hasCustomAssemblyFormat = 1;
}

def PS_DimAttr : PS_Attr<"Dim", "dim"> {
  let summary = "the factors of one tensor dim, major to minor";
  let description = [{
    Held in a normal form: adjacent factors without axes are one, and a dim that is one factor
    has it with size 0. A whole dim is one factor of size 0 without axes, printed `{}`.
  }];
  let parameters = (ins ArrayRefParameter<"::parashard::ps::FactorAttr">:$factors);
  let skipDefaultBuilders = 1;
  let builders = [AttrBuilder<(ins "::llvm::ArrayRef<FactorAttr>":$factors)>];
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// One factor that no axis splits.
    static DimAttr getWhole(::mlir::MLIRContext *context);
    /// The dim as one factor, split over `axes`.
    static DimAttr getSplit(::mlir::MLIRContext *context, ::llvm::ArrayRef<::mlir::StringAttr> axes);
    /// True when no axis splits it.
    bool isWhole() const;
  }];
}

def PS_PartialAttr : PS_Attr<"Partial", "partial"> {
  let summary = "a mesh axis over which a value is yet to be combined";
  let parameters = (ins "::mlir::StringAttr":$axis, "::parashard::ps::ReductionKind":$kind);
  let hasCustomAssemblyFormat = 1;
}

def PS_ShardingAttr : PS_Attr<"Sharding", "sharding"> {
  let summary = "how a tensor lies on a mesh";
  let description = [{
    ```
    sharding ::= #ps.sharding<@mesh, [dim, ...] (, partial = {"axis": sum|max|min, ...})?>
    dim      ::= axes | (factor x factor ...)        factor ::= INT axes?        axes ::= {"axis", ...}
    ```
    `(3 x 384 {"tp"})` reads a dim of 1152 row-major as 3 x 384 and splits the second
    factor. A factor of size n over k shards gives each c = ceil(n / k) places; shard r
    holds the elements [min(r c, n), min((r + 1) c, n)), and the rest is padding. With an axis
    of kind `multiple` among its axes c is rounded up to a multiple of that axis' size.
  }];
  let parameters = (ins
    "::mlir::FlatSymbolRefAttr":$mesh,
    ArrayRefParameter<"::parashard::ps::DimAttr">:$dims,
    OptionalArrayRefParameter<"::parashard::ps::PartialAttr">:$partial);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Replicated on every axis: `rank` whole dims and nothing partial.
    static ShardingAttr getReplicated(::mlir::FlatSymbolRefAttr mesh, int64_t rank);
    /// True when no dim is split and nothing is partial.
    bool isReplicated() const;
    /// All axes that split dim `dim`, major to minor over its factors.
    ::llvm::SmallVector<::mlir::StringAttr> getDimAxes(unsigned dim) const;
    /// The same dims, with nothing partial.
    ShardingAttr withoutPartial() const;
    /// The same dims, with `partial` in place of what was there.
    ShardingAttr withPartial(::llvm::ArrayRef<PartialAttr> partial) const;
  }];
}

def PS_FileAttr : PS_Attr<"File", "file", [TypedAttrInterface]> {
  let summary = "a tensor in a file";
  let description = [{
    `#ps.file<"model.pt2:data/weights/weight_0">`: the raw bytes of an archive's entry, or
    `#ps.file<"x.safetensors:name">`. With `slice = [lo:hi, ...]`, the part of it that the
    variable holds, one range a dim of the tensor in the file; `shape` is then that tensor's shape.
  }];
  let parameters = (ins
    "::mlir::StringAttr":$location,
    OptionalArrayRefParameter<"int64_t">:$shape,
    OptionalArrayRefParameter<"int64_t">:$lower,
    OptionalArrayRefParameter<"int64_t">:$upper,
    AttributeSelfTypeParameter<"the variable's; none once it is parsed">:$type);
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
  let description = "`#ps.distribution<normal, 0.0, 0.02>` (mean, standard deviation) or `<uniform, lo, hi>` or `<value, v, 0.0>`.";
  let parameters = (ins StringRefParameter<"normal, uniform or value">:$kind,
                        "::mlir::FloatAttr":$first, "::mlir::FloatAttr":$second,
                        AttributeSelfTypeParameter<"the variable's; none once it is parsed">:$type);
  let builders = [AttrBuilder<(ins "::llvm::StringRef":$kind, "::mlir::FloatAttr":$first,
                                   "::mlir::FloatAttr":$second), [{
    return $_get($_ctxt, kind, first, second, ::mlir::NoneType::get($_ctxt));
  }]>];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
}

def PS_AxisAttr : PS_Attr<"Axis", "axis"> {
  let summary = "a named mesh axis: size and kind";
  let description = [{
    An axis of kind `multiple` has one device: what it splits is held whole, in a number of places
    that is a multiple of its size (`ps-align-dims`).
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$size,
                        "::parashard::ps::AxisKind":$kind);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Devices along it: its size, or 1 where that is a multiple.
    int64_t getDevices() const { return getKind() == AxisKind::Multiple ? 1 : getSize(); }
  }];
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def PS_RefType : TypeDef<PS_Dialect, "Ref"> {
  let mnemonic = "ref";
  let summary = "a variable that is bound where a class function is run";
  let parameters = (ins "::mlir::RankedTensorType":$tensorType);
  let assemblyFormat = "`<` $tensorType `>`";
}

#endif
