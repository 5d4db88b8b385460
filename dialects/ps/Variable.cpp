// Implements the mesh, variables, and the ops that access variables: syntax and verifiers.
#include "dialects/ps/Ps.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace parashard::ps;

//===----------------------------------------------------------------------===//
// MeshOp
//===----------------------------------------------------------------------===//

ParseResult MeshOp::parse(OpAsmParser &parser, OperationState &state) {
  StringAttr name;
  SmallVector<Attribute> axes;
  auto axis = [&]() -> ParseResult {
    FailureOr<AxisAttr> parsed = detail::parseAxis(parser);
    if (failed(parsed))
      return failure();
    axes.push_back(*parsed);
    return success();
  };
  if (parser.parseSymbolName(name, getSymNameAttrName(state.name), state.attributes) ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, axis) ||
      parser.parseOptionalAttrDict(state.attributes))
    return failure();
  state.addAttribute(getAxesAttrName(state.name), parser.getBuilder().getArrayAttr(axes));
  return success();
}

void MeshOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << " <";
  llvm::interleaveComma(getAxes().getAsRange<AxisAttr>(), printer,
                        [&](AxisAttr axis) { detail::printAxis(printer, axis); });
  printer << '>';
  printer.printOptionalAttrDict((*this)->getAttrs(), {getSymNameAttrName(), getAxesAttrName()});
}

LogicalResult MeshOp::verify() {
  llvm::StringSet<> names;
  unsigned pipelines = 0, multiples = 0;
  for (AxisAttr axis : getAxes().getAsRange<AxisAttr>()) {
    if (!names.insert(axis.getName().getValue()).second)
      return emitOpError("axis ") << axis.getName() << " is named twice (mesh_c1)";
    if (axis.getSize() < 1)
      return emitOpError("axis ") << axis.getName() << " has size " << axis.getSize()
                                  << ", expected at least 1 (mesh_c2)";
    pipelines += axis.getKind() == AxisKind::Pipeline;
    multiples += axis.getKind() == AxisKind::Multiple;
  }
  if (pipelines > 1)
    return emitOpError("has ") << pipelines
                               << " axes of kind pipeline, expected at most 1 (mesh_c3)";
  if (multiples > 1)
    return emitOpError("has ") << multiples
                               << " axes of kind multiple, expected at most 1 (mesh_c3)";
  return success();
}

int64_t MeshOp::getAxisSize(StringRef name) {
  for (AxisAttr axis : getAxes().getAsRange<AxisAttr>())
    if (axis.getName() == name)
      return axis.getDevices();
  return 0;
}

int64_t MeshOp::getDeviceCount() {
  int64_t count = 1;
  for (AxisAttr axis : getAxes().getAsRange<AxisAttr>())
    count *= axis.getDevices();
  return count;
}

SmallVector<StringAttr> MeshOp::getAxesOfKind(AxisKind kind) {
  SmallVector<StringAttr> axes;
  for (AxisAttr axis : getAxes().getAsRange<AxisAttr>())
    if (axis.getKind() == kind)
      axes.push_back(axis.getName());
  return axes;
}

int64_t MeshOp::getShards(ArrayRef<StringAttr> axes) {
  int64_t shards = 1;
  for (StringAttr axis : axes)
    shards *= getAxisSize(axis.getValue());
  return shards;
}

int64_t MeshOp::getShardSize(int64_t size, ArrayRef<StringAttr> axes) {
  int64_t elements = llvm::divideCeil(size, getShards(axes));
  for (AxisAttr axis : getAxes().getAsRange<AxisAttr>())
    if (axis.getKind() == AxisKind::Multiple && llvm::is_contained(axes, axis.getName()))
      elements = llvm::alignTo(elements, axis.getSize());
  return elements;
}

//===----------------------------------------------------------------------===//
// VariableOp
//===----------------------------------------------------------------------===//

/// Parses `init ATTRIBUTE`. The attribute parser also consumes a type that follows the attribute.
/// Sets `type` to this type.
static ParseResult parseInitial(OpAsmParser &parser, Attribute &init, Type &type) {
  if (parser.parseAttribute(init))
    return failure();
  auto typed = dyn_cast<TypedAttr>(init);
  if (!typed || isa<NoneType>(typed.getType()))
    return success();
  type = typed.getType();
  MLIRContext *context = parser.getContext();
  if (auto file = dyn_cast<FileAttr>(init))
    init = FileAttr::get(context, file.getLocation(), file.getShape(), file.getLower(),
                         file.getUpper());
  else if (auto drawn = dyn_cast<DistributionAttr>(init))
    init = DistributionAttr::get(context, drawn.getKind(), drawn.getFirst(), drawn.getSecond());
  return success();
}

ParseResult VariableOp::parse(OpAsmParser &parser, OperationState &state) {
  StringRef word;
  StringAttr name;
  Builder &builder = parser.getBuilder();
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<VariableKind> kind = symbolizeVariableKind(word);
  if (!kind)
    return parser.emitError(at, "expected a variable kind, got '") << word << "'";
  state.addAttribute(getKindAttrName(state.name),
                     VariableKindAttr::get(parser.getContext(), *kind));
  if (parser.parseSymbolName(name, getSymNameAttrName(state.name), state.attributes))
    return failure();
  ArrayAttr names;
  FlatSymbolRefAttr of;
  Attribute init;
  Type type;
  if (parser.parseOptionalKeyword("names").succeeded() &&
      parser.parseAttribute(names, getNamesAttrName(state.name), state.attributes))
    return failure();
  if (parser.parseOptionalKeyword("of").succeeded() &&
      parser.parseAttribute(of, getOfAttrName(state.name), state.attributes))
    return failure();
  if (parser.parseOptionalKeyword("init").succeeded()) {
    if (parseInitial(parser, init, type))
      return failure();
    state.addAttribute(getInitAttrName(state.name), init);
  }
  if (parser.parseOptionalKeyword("frozen").succeeded())
    state.addAttribute(getFrozenAttrName(state.name), builder.getUnitAttr());
  if (parser.parseOptionalKeyword("transient").succeeded())
    state.addAttribute(getTransientAttrName(state.name), builder.getUnitAttr());
  if (parser.parseOptionalAttrDict(state.attributes))
    return failure();
  if (!type ? failed(parser.parseColonType(type))
            : parser.parseOptionalColon().succeeded() && failed(parser.parseType(type)))
    return failure();
  state.addAttribute(getTypeAttrName(state.name), TypeAttr::get(type));
  return success();
}

void VariableOp::print(OpAsmPrinter &printer) {
  printer << ' ' << stringifyVariableKind(getKind()) << ' ';
  printer.printSymbolName(getSymName());
  if (getNamesAttr())
    printer << " names " << getNamesAttr();
  if (getOfAttr())
    printer << " of " << getOfAttr();
  if (getInitAttr())
    printer << " init " << getInitAttr();
  if (getFrozen())
    printer << " frozen";
  if (getTransient())
    printer << " transient";
  printer.printOptionalAttrDict((*this)->getAttrs(), {"kind", "sym_name", "names", "of", "init",
                                                      "frozen", "transient", "type"});
  auto constant = dyn_cast_or_null<ElementsAttr>(getInitAttr());
  if (!constant || constant.getType() != getType())
    printer << " : " << getType();
}

StringRef VariableOp::getDisplayName() {
  if (std::optional<ArrayAttr> names = getNames(); names && !names->empty())
    return cast<StringAttr>((*names)[0]).getValue();
  return getSymName();
}

ShardingAttr VariableOp::getSharding() {
  return (*this)->getAttrOfType<ShardingAttr>(kShardingMark);
}

void VariableOp::setSharding(ShardingAttr sharding) { (*this)->setAttr(kShardingMark, sharding); }

/// Returns whether a variable of this kind belongs to another variable.
static bool needsOwner(VariableKind kind) {
  return kind == VariableKind::Gradient || kind == VariableKind::Optimizer ||
         kind == VariableKind::Copy || kind == VariableKind::Average;
}

LogicalResult VariableOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape())
    return emitOpError("has type ") << getType() << ", expected a tensor of static shape";
  VariableKind kind = getKind();
  if (needsOwner(kind) && !getOf())
    return emitOpError("of kind ")
           << stringifyVariableKind(kind) << " needs 'of @variable' (variable_c2)";
  if (auto init = dyn_cast_or_null<ElementsAttr>(getInitAttr()); init && init.getType() != type)
    return emitOpError("has type ")
           << type << ", its initial value has type " << init.getType() << " (variable_c4)";
  return success();
}

LogicalResult VariableOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (!getOf())
    return success();
  Type type = getType();
  auto owner = tables.lookupNearestSymbolFrom<VariableOp>((*this)->getParentOp(), getOfAttr());
  if (!owner)
    return emitOpError("belongs to ") << getOfAttr() << ", which is not a variable (variable_c1)";
  if (getKind() == VariableKind::Gradient && owner.getType() != type) {
    InFlightDiagnostic error = emitOpError("gradient has type ")
                               << type << ", its variable has type " << owner.getType()
                               << " (variable_c3)";
    error.attachNote(owner.getLoc()) << "variable declared here";
    return error;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Access: `@symbol` or `%ref`
//===----------------------------------------------------------------------===//

namespace {
/// The parsed symbol or ref of `ps.read`, `ps.write` or `ps.accumulate`.
struct ParsedAccess {
  std::optional<OpAsmParser::UnresolvedOperand> ref;
  FlatSymbolRefAttr symbol;
};
} // namespace

static ParseResult parseAccess(OpAsmParser &parser, ParsedAccess &access) {
  OpAsmParser::UnresolvedOperand operand;
  OptionalParseResult isRef = parser.parseOptionalOperand(operand);
  if (!isRef.has_value())
    return parser.parseAttribute(access.symbol);
  access.ref = operand;
  return *isRef;
}

/// Parses the attr-dict and `: type`. Sets `tensor` to the tensor type, and resolves the ref.
static ParseResult parseAccessType(OpAsmParser &parser, OperationState &state,
                                   const ParsedAccess &access, Type &tensor) {
  if (parser.parseOptionalAttrDict(state.attributes))
    return failure();
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseColonType(tensor))
    return failure();
  if (access.symbol)
    state.addAttribute("variable", access.symbol);
  if (!access.ref)
    return success();
  auto ref = dyn_cast<RefType>(tensor);
  if (!ref)
    return parser.emitError(at, "expected a !ps.ref type, got ") << tensor;
  tensor = ref.getTensorType();
  return parser.resolveOperand(*access.ref, ref, state.operands);
}

template <typename Op> static void printAccess(OpAsmPrinter &printer, Op op) {
  printer << ' ';
  if (op.getVariableAttr())
    printer << op.getVariableAttr();
  else
    printer << op.getRef();
}

template <typename Op> static void printAccessType(OpAsmPrinter &printer, Op op, Type tensor) {
  printer.printOptionalAttrDict(op->getAttrs(), {"variable", "kind", "operandSegmentSizes"});
  printer << " : ";
  if (op.getRef())
    printer << op.getRef().getType();
  else
    printer << tensor;
}

/// Returns the type that an access `op` must have: the variable's type, or its local type from
/// level 3 on.
static RankedTensorType getAccessType(VariableOp variable, Operation *op) {
  RankedTensorType type = variable.getTensorType();
  ShardingAttr sharding = variable.getSharding();
  auto module = op->getParentOfType<ModuleOp>();
  auto level = module ? module->getAttrOfType<LevelAttr>(kLevelMark) : LevelAttr();
  if (!sharding || !level || level.getValue() < Level::Partitioned)
    return type;
  MeshOp mesh = getMesh(module);
  return mesh ? getLocalType(type, sharding, mesh) : type;
}

/// Verifies the parts of an access that do not need the symbol table. verifyVariable checks the
/// rest.
template <typename Op> static LogicalResult verifyAccess(Op op, Type tensor) {
  if (bool(op.getRef()) == bool(op.getVariableAttr()))
    return op.emitOpError("needs either a variable's symbol or a ref (read_c1)");
  if (!op.getRef())
    return success();
  RefType ref = op.getRef().getType();
  if (ref.getTensorType() != tensor)
    return op.emitOpError("has value type ")
           << tensor << ", the ref has type " << ref << " (read_c2)";
  return success();
}

template <typename Op>
static LogicalResult verifyVariable(Op op, Type tensor, SymbolTableCollection &tables) {
  if (!op.getVariableAttr())
    return success();
  auto variable =
      tables.lookupNearestSymbolFrom<VariableOp>(op.getOperation(), op.getVariableAttr());
  if (!variable)
    return op.emitOpError("names ")
           << op.getVariableAttr() << ", which is not a variable (read_c2)";
  RankedTensorType expected = getAccessType(variable, op);
  if (expected == tensor)
    return success();
  InFlightDiagnostic error = op.emitOpError("has value type ")
                             << tensor << ", the variable has type " << expected << " (read_c2)";
  error.attachNote(variable.getLoc()) << "variable declared here";
  return error;
}

//===----------------------------------------------------------------------===//
// ReadOp
//===----------------------------------------------------------------------===//

ParseResult ReadOp::parse(OpAsmParser &parser, OperationState &state) {
  ParsedAccess access;
  Type tensor;
  if (parseAccess(parser, access) || parseAccessType(parser, state, access, tensor))
    return failure();
  state.addTypes(tensor);
  return success();
}

void ReadOp::print(OpAsmPrinter &printer) {
  printAccess(printer, *this);
  printAccessType(printer, *this, getType());
}

LogicalResult ReadOp::verify() { return verifyAccess(*this, getType()); }

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyVariable(*this, getType(), tables);
}

//===----------------------------------------------------------------------===//
// WriteOp
//===----------------------------------------------------------------------===//

ParseResult WriteOp::parse(OpAsmParser &parser, OperationState &state) {
  ParsedAccess access;
  OpAsmParser::UnresolvedOperand value, condition;
  Type tensor;
  Builder &builder = parser.getBuilder();
  if (parseAccess(parser, access) || parser.parseComma() || parser.parseOperand(value))
    return failure();
  bool conditional = parser.parseOptionalKeyword("if").succeeded();
  if ((conditional && parser.parseOperand(condition)) ||
      parseAccessType(parser, state, access, tensor) ||
      parser.resolveOperand(value, tensor, state.operands))
    return failure();
  Type flag = RankedTensorType::get({}, builder.getI1Type());
  if (conditional && parser.resolveOperand(condition, flag, state.operands))
    return failure();
  state.addAttribute("operandSegmentSizes",
                     builder.getDenseI32ArrayAttr({access.ref ? 1 : 0, 1, conditional ? 1 : 0}));
  return success();
}

void WriteOp::print(OpAsmPrinter &printer) {
  printAccess(printer, *this);
  printer << ", " << getValue();
  if (getCondition())
    printer << " if " << getCondition();
  printAccessType(printer, *this, getValue().getType());
}

/// Verifies write_c1 for all writes of a block when called for the first one. Returns success for
/// the other writes, so that the total work is linear.
static LogicalResult verifyWrites(WriteOp first) {
  for (Operation *previous = first->getPrevNode(); previous; previous = previous->getPrevNode())
    if (isa<WriteOp>(previous))
      return success();
  DenseMap<const void *, WriteOp> writes;
  for (Operation *op = first; op; op = op->getNextNode()) {
    auto write = dyn_cast<WriteOp>(op);
    if (!write)
      continue;
    const void *written = write.getRef() ? write.getRef().getAsOpaquePointer()
                                         : write.getVariableAttr().getAsOpaquePointer();
    auto [known, isNew] = writes.try_emplace(written, write);
    if (isNew)
      continue;
    InFlightDiagnostic error = known->second.emitOpError(
        "is one of several writes to its variable, expected one write per function (write_c1)");
    error.attachNote(write.getLoc()) << "also written here";
    return error;
  }
  return success();
}

LogicalResult WriteOp::verify() {
  if (failed(verifyAccess(*this, getValue().getType())))
    return failure();
  return verifyWrites(*this);
}

LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyVariable(*this, getValue().getType(), tables);
}

//===----------------------------------------------------------------------===//
// AccumulateOp
//===----------------------------------------------------------------------===//

ParseResult AccumulateOp::parse(OpAsmParser &parser, OperationState &state) {
  ParsedAccess access;
  OpAsmParser::UnresolvedOperand value;
  Type tensor;
  if (parseAccess(parser, access) || parser.parseComma() || parser.parseOperand(value))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("by"))) {
    StringRef word;
    if (parser.parseKeyword(&word))
      return failure();
    std::optional<ReductionKind> kind = symbolizeReductionKind(word);
    if (!kind)
      return parser.emitError(parser.getCurrentLocation(), "expected sum, max or min");
    state.addAttribute("kind", ReductionKindAttr::get(parser.getContext(), *kind));
  }
  return failure(parseAccessType(parser, state, access, tensor) ||
                 parser.resolveOperand(value, tensor, state.operands));
}

void AccumulateOp::print(OpAsmPrinter &printer) {
  printAccess(printer, *this);
  printer << ", " << getValue();
  if (getKind() != ReductionKind::Sum)
    printer << " by " << stringifyReductionKind(getKind());
  printAccessType(printer, *this, getValue().getType());
}

LogicalResult AccumulateOp::verify() { return verifyAccess(*this, getValue().getType()); }

LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyVariable(*this, getValue().getType(), tables);
}
