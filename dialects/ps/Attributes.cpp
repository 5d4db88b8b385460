// Implements the attributes and types of `ps`: parsing, printing and helpers.
#include "dialects/ps/Ps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include "dialects/ps/PsEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/ps/PsAttributes.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/ps/PsTypes.cpp.inc"

using namespace mlir;
using namespace parashard::ps;

void PSDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/ps/PsAttributes.cpp.inc"
      >();
}

void PSDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/ps/PsTypes.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Parts of a sharding
//===----------------------------------------------------------------------===//

/// Parses the axes after an opening brace: `"axis", ...}`.
static ParseResult parseOpenAxes(AsmParser &parser, SmallVectorImpl<StringAttr> &axes) {
  if (parser.parseOptionalRBrace().succeeded())
    return success();
  do {
    std::string name;
    if (parser.parseString(&name))
      return failure();
    axes.push_back(StringAttr::get(parser.getContext(), name));
  } while (parser.parseOptionalComma().succeeded());
  return parser.parseRBrace();
}

static void printAxes(AsmPrinter &printer, ArrayRef<StringAttr> axes) {
  printer << '{';
  llvm::interleaveComma(axes, printer, [&](StringAttr axis) { printer << axis; });
  printer << '}';
}

/// Parses a factor: `factor ::= INT axes?`.
static FailureOr<FactorAttr> parseFactor(AsmParser &parser) {
  int64_t size = 0;
  SmallVector<StringAttr> axes;
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseInteger(size))
    return failure();
  if (size < 0)
    return parser.emitError(at, "expected a factor size of at least 0, got ") << size;
  if (parser.parseOptionalLBrace().succeeded() && parseOpenAxes(parser, axes))
    return failure();
  return FactorAttr::get(parser.getContext(), size, axes);
}

static void printFactor(AsmPrinter &printer, FactorAttr factor) {
  printer << factor.getSize();
  if (factor.getAxes().empty())
    return;
  printer << ' ';
  printAxes(printer, factor.getAxes());
}

/// Parses a dim: `dim ::= axes | (factor x factor ...)`.
static FailureOr<DimAttr> parseDim(AsmParser &parser) {
  MLIRContext *context = parser.getContext();
  SmallVector<FactorAttr> factors;
  if (parser.parseOptionalLParen().succeeded()) {
    do {
      FailureOr<FactorAttr> factor = parseFactor(parser);
      if (failed(factor))
        return failure();
      factors.push_back(*factor);
    } while (parser.parseOptionalKeyword("x").succeeded());
    if (parser.parseRParen())
      return failure();
    return DimAttr::get(context, factors);
  }
  SmallVector<StringAttr> axes;
  if (parser.parseLBrace() || parseOpenAxes(parser, axes))
    return failure();
  return DimAttr::getSplit(context, axes);
}

static void printDim(AsmPrinter &printer, DimAttr dim) {
  ArrayRef<FactorAttr> factors = dim.getFactors();
  if (factors.size() == 1)
    return printAxes(printer, factors.front().getAxes());
  printer << '(';
  llvm::interleave(
      factors, [&](FactorAttr factor) { printFactor(printer, factor); }, [&] { printer << " x "; });
  printer << ')';
}

/// Parses a partial axis: `partial ::= "axis": kind`.
static FailureOr<PartialAttr> parsePartial(AsmParser &parser) {
  std::string name;
  StringRef word;
  if (parser.parseString(&name) || parser.parseColon())
    return failure();
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<ReductionKind> kind = symbolizeReductionKind(word);
  if (!kind)
    return parser.emitError(at, "expected sum, max or min, got '") << word << "'";
  MLIRContext *context = parser.getContext();
  return PartialAttr::get(context, StringAttr::get(context, name), *kind);
}

static void printPartial(AsmPrinter &printer, PartialAttr partial) {
  printer << partial.getAxis() << ": " << stringifyReductionKind(partial.getKind());
}

FailureOr<AxisAttr> parashard::ps::detail::parseAxis(AsmParser &parser) {
  std::string name;
  int64_t size;
  StringRef word;
  if (parser.parseString(&name) || parser.parseEqual() || parser.parseInteger(size) ||
      parser.parseColon())
    return failure();
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<AxisKind> kind = symbolizeAxisKind(word);
  if (!kind)
    return parser.emitError(at,
                            "expected data, tensor, context, expert, pipeline or multiple, got '")
           << word << "'";
  MLIRContext *context = parser.getContext();
  return AxisAttr::get(context, StringAttr::get(context, name), size, *kind);
}

void parashard::ps::detail::printAxis(AsmPrinter &printer, AxisAttr axis) {
  printer << axis.getName() << " = " << axis.getSize() << " : "
          << stringifyAxisKind(axis.getKind());
}

//===----------------------------------------------------------------------===//
// The normal form of a dim
//===----------------------------------------------------------------------===//

static SmallVector<FactorAttr> normalizeFactors(MLIRContext *context,
                                                ArrayRef<FactorAttr> factors) {
  SmallVector<FactorAttr> normal;
  for (FactorAttr factor : factors) {
    bool whole = factor.getAxes().empty();
    if (whole && factor.getSize() == 1)
      continue;
    if (whole && !normal.empty() && normal.back().getAxes().empty())
      normal.back() = FactorAttr::get(context, normal.back().getSize() * factor.getSize(), {});
    else
      normal.push_back(factor);
  }
  if (normal.empty())
    normal.push_back(FactorAttr::get(context, 0, {}));
  if (normal.size() == 1)
    normal.front() = FactorAttr::get(context, 0, normal.front().getAxes());
  return normal;
}

DimAttr DimAttr::get(MLIRContext *context, ArrayRef<FactorAttr> factors) {
  return Base::get(context, normalizeFactors(context, factors));
}

DimAttr DimAttr::getWhole(MLIRContext *context) {
  return DimAttr::get(context, ArrayRef<FactorAttr>());
}

DimAttr DimAttr::getSplit(MLIRContext *context, ArrayRef<StringAttr> axes) {
  return DimAttr::get(context, ArrayRef<FactorAttr>{FactorAttr::get(context, 0, axes)});
}

bool DimAttr::isWhole() const {
  return llvm::all_of(getFactors(), [](FactorAttr factor) { return factor.getAxes().empty(); });
}

//===----------------------------------------------------------------------===//
// Printers and parsers
//===----------------------------------------------------------------------===//

template <typename AttrT, typename Parse>
static Attribute parseInAngles(AsmParser &parser, Parse parse) {
  if (parser.parseLess())
    return {};
  FailureOr<AttrT> attr = parse(parser);
  if (failed(attr) || !*attr || parser.parseGreater())
    return {};
  return *attr;
}

template <typename AttrT, typename Print>
static void printInAngles(AsmPrinter &printer, AttrT attr, Print print) {
  printer << '<';
  print(printer, attr);
  printer << '>';
}

Attribute FactorAttr::parse(AsmParser &parser, Type) {
  return parseInAngles<FactorAttr>(parser, parseFactor);
}
void FactorAttr::print(AsmPrinter &printer) const { printInAngles(printer, *this, printFactor); }

Attribute DimAttr::parse(AsmParser &parser, Type) {
  return parseInAngles<DimAttr>(parser, parseDim);
}
void DimAttr::print(AsmPrinter &printer) const { printInAngles(printer, *this, printDim); }

Attribute PartialAttr::parse(AsmParser &parser, Type) {
  return parseInAngles<PartialAttr>(parser, parsePartial);
}
void PartialAttr::print(AsmPrinter &printer) const { printInAngles(printer, *this, printPartial); }

Attribute AxisAttr::parse(AsmParser &parser, Type) {
  return parseInAngles<AxisAttr>(parser, detail::parseAxis);
}
void AxisAttr::print(AsmPrinter &printer) const {
  printInAngles(printer, *this, detail::printAxis);
}

/// Parses a delimited list, and appends its elements to `list`.
template <typename AttrT, typename Parse>
static ParseResult parseList(AsmParser &parser, AsmParser::Delimiter delimiter,
                             SmallVectorImpl<AttrT> &list, Parse parse) {
  return parser.parseCommaSeparatedList(delimiter, [&]() -> ParseResult {
    FailureOr<AttrT> parsed = parse(parser);
    if (failed(parsed))
      return failure();
    list.push_back(*parsed);
    return success();
  });
}

static FailureOr<ShardingAttr> parseSharding(AsmParser &parser) {
  FlatSymbolRefAttr mesh;
  SmallVector<DimAttr> dims;
  SmallVector<PartialAttr> partial;
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseAttribute(mesh) || parser.parseComma() ||
      parseList(parser, AsmParser::Delimiter::Square, dims, parseDim))
    return failure();
  if (parser.parseOptionalComma().succeeded() &&
      (parser.parseKeyword("partial") || parser.parseEqual() ||
       parseList(parser, AsmParser::Delimiter::Braces, partial, parsePartial)))
    return failure();
  return ShardingAttr::getChecked([&] { return parser.emitError(at); }, parser.getContext(), mesh,
                                  dims, partial);
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  return parseInAngles<ShardingAttr>(parser, parseSharding);
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << '<' << getMesh() << ", [";
  llvm::interleaveComma(getDims(), printer, [&](DimAttr dim) { printDim(printer, dim); });
  printer << ']';
  if (!getPartial().empty()) {
    printer << ", partial = {";
    llvm::interleaveComma(getPartial(), printer,
                          [&](PartialAttr part) { printPartial(printer, part); });
    printer << '}';
  }
  printer << '>';
}

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   FlatSymbolRefAttr mesh, ArrayRef<DimAttr> dims,
                                   ArrayRef<PartialAttr> partial) {
  SmallVector<StringAttr> used;
  for (DimAttr dim : dims)
    for (FactorAttr factor : dim.getFactors())
      llvm::append_range(used, factor.getAxes());
  for (PartialAttr part : partial)
    used.push_back(part.getAxis());
  for (auto [i, axis] : llvm::enumerate(used))
    if (llvm::is_contained(ArrayRef(used).take_front(i), axis))
      return emitError() << "mesh axis " << axis << " occurs twice in one sharding";
  return success();
}

/// Parses ranges in brackets: `[lower:upper, ...]`.
static ParseResult parseRanges(AsmParser &parser, SmallVectorImpl<int64_t> &lower,
                               SmallVectorImpl<int64_t> &upper) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    return failure(parser.parseInteger(lower.emplace_back()) || parser.parseColon() ||
                   parser.parseInteger(upper.emplace_back()));
  });
}

static ParseResult parseSizes(AsmParser &parser, SmallVectorImpl<int64_t> &sizes) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    return parser.parseInteger(sizes.emplace_back());
  });
}

static FailureOr<FileAttr> parseFile(AsmParser &parser, Type type) {
  std::string location;
  SmallVector<int64_t> shape, lower, upper;
  if (parser.parseString(&location))
    return failure();
  while (parser.parseOptionalComma().succeeded()) {
    StringRef word;
    SMLoc at = parser.getCurrentLocation();
    if (parser.parseKeyword(&word) || parser.parseEqual())
      return failure();
    if (word != "slice" && word != "shape")
      return parser.emitError(at, "expected 'shape' or 'slice', got '") << word << "'";
    if (word == "slice" ? parseRanges(parser, lower, upper) : parseSizes(parser, shape))
      return failure();
  }
  MLIRContext *context = parser.getContext();
  return FileAttr::Base::get(context, StringAttr::get(context, location), shape, lower, upper,
                             type ? type : NoneType::get(context));
}

Attribute FileAttr::parse(AsmParser &parser, Type type) {
  return parseInAngles<FileAttr>(parser, [&](AsmParser &p) { return parseFile(p, type); });
}

void FileAttr::print(AsmPrinter &printer) const {
  printer << '<' << getLocation();
  if (!getShape().empty()) {
    printer << ", shape = [";
    llvm::interleaveComma(getShape(), printer);
    printer << ']';
  }
  if (!getLower().empty()) {
    printer << ", slice = [";
    llvm::interleaveComma(llvm::zip(getLower(), getUpper()), printer, [&](auto range) {
      printer << std::get<0>(range) << ':' << std::get<1>(range);
    });
    printer << ']';
  }
  printer << '>';
}

static FailureOr<DistributionAttr> parseDistribution(AsmParser &parser, Type type) {
  StringRef kind;
  FloatAttr first, second;
  Type f64 = Float64Type::get(parser.getContext());
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseKeyword(&kind) || parser.parseComma() || parser.parseAttribute(first, f64) ||
      parser.parseComma() || parser.parseAttribute(second, f64))
    return failure();
  if (kind != "normal" && kind != "uniform" && kind != "value")
    return parser.emitError(at, "expected normal, uniform or value, got '") << kind << "'";
  MLIRContext *context = parser.getContext();
  return DistributionAttr::Base::get(context, kind, first, second,
                                     type ? type : NoneType::get(context));
}

Attribute DistributionAttr::parse(AsmParser &parser, Type type) {
  return parseInAngles<DistributionAttr>(parser,
                                         [&](AsmParser &p) { return parseDistribution(p, type); });
}

void DistributionAttr::print(AsmPrinter &printer) const {
  printer << '<' << getKind() << ", ";
  printer.printAttributeWithoutType(getFirst());
  printer << ", ";
  printer.printAttributeWithoutType(getSecond());
  printer << '>';
}

//===----------------------------------------------------------------------===//
// Queries of shardings
//===----------------------------------------------------------------------===//

ShardingAttr ShardingAttr::getReplicated(FlatSymbolRefAttr mesh, int64_t rank) {
  MLIRContext *context = mesh.getContext();
  SmallVector<DimAttr> dims(rank, DimAttr::getWhole(context));
  return ShardingAttr::get(context, mesh, dims, {});
}

bool ShardingAttr::isReplicated() const {
  return getPartial().empty() && llvm::all_of(getDims(), [](DimAttr dim) { return dim.isWhole(); });
}

SmallVector<StringAttr> ShardingAttr::getDimAxes(unsigned dim) const {
  SmallVector<StringAttr> axes;
  for (FactorAttr factor : getDims()[dim].getFactors())
    llvm::append_range(axes, factor.getAxes());
  return axes;
}

ShardingAttr ShardingAttr::withoutPartial() const { return withPartial({}); }

ShardingAttr ShardingAttr::withPartial(ArrayRef<PartialAttr> partial) const {
  return ShardingAttr::get(getContext(), getMesh(), getDims(), partial);
}
