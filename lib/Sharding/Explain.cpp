// Reads the plan off the marks of a module and prints it.
#include "lib/Sharding/Explain.h"
#include "lib/Sharding/Reasons.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace parashard::ps {

namespace {
std::string joinAxes(ArrayRef<StringAttr> axes) {
  std::string text;
  for (StringAttr axis : axes)
    text += (text.empty() ? "" : ", ") + axis.str();
  return text;
}

/// A sharding without its mesh: `[{"tp"}, {}]`.
std::string describe(ShardingAttr sharding) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << sharding;
  size_t begin = text.find('['), end = text.rfind('>');
  return begin == std::string::npos ? text : text.substr(begin, end - begin);
}

/// The dim that an axis splits; -1: none.
int findDim(ShardingAttr sharding, StringAttr axis) {
  for (unsigned dim = 0; dim < sharding.getDims().size(); ++dim)
    if (llvm::is_contained(sharding.getDimAxes(dim), axis))
      return dim;
  return -1;
}

bool isPartialOver(ShardingAttr sharding, StringAttr axis) {
  return llvm::any_of(sharding.getPartial(),
                      [&](PartialAttr partial) { return partial.getAxis() == axis; });
}

class Explainer {
public:
  explicit Explainer(ModuleOp module) : module(module), mesh(getMesh(module)) {}

  ShardingExplanation run() {
    for (AxisAttr axis : mesh.getAxes())
      explanation.mesh += llvm::formatv("{0}{1} = {2} ({3})", explanation.mesh.empty() ? "" : ", ",
                                        axis.getName().getValue(), axis.getSize(),
                                        stringifyAxisKind(axis.getKind()))
                              .str();
    for (auto variable : module.getOps<VariableOp>()) {
      variables[variable.getSymNameAttr()] = variable;
      if (variable.getKind() == VariableKind::Parameter && variable.getSharding())
        addParameter(variable);
    }
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal())
        for (Operation &op : function.getFunctionBody().front())
          addOp(&op);
    return std::move(explanation);
  }

private:
  /// The model's name; the symbol for a part of a variable that was split.
  static std::string getName(VariableOp variable) {
    StringRef name = variable.getDisplayName(), symbol = variable.getSymName();
    return symbol.starts_with(name) ? symbol.str() : name.str();
  }

  void addParameter(VariableOp variable) {
    RankedTensorType type = variable.getTensorType();
    std::string text;
    llvm::raw_string_ostream os(text);
    for (int64_t size : type.getShape())
      os << size << "x";
    os << type.getElementType();
    explanation.parameters.push_back({getName(variable), text, describe(variable.getSharding()),
                                      getReason(variable).str(),
                                      getLocalBytes(type, variable.getSharding())});
  }

  int64_t getLocalBytes(RankedTensorType type, ShardingAttr sharding) {
    int64_t elements = 1;
    for (const Split &split : getSplits(sharding, type.getShape(), mesh))
      elements *= getLocalSize(split, mesh);
    int64_t whole = std::max<int64_t>(type.getNumElements(), 1);
    return elements * (getByteSize(type) / whole);
  }

  static std::string getWhen(Operation *op) {
    auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
    if (!phase)
      return "forward";
    switch (phase.getValue()) {
    case Phase::BackwardInput:
    case Phase::BackwardWeight:
      return "backward";
    default:
      return stringifyPhase(phase.getValue()).str();
    }
  }

  VariableOp findVariable(FlatSymbolRefAttr symbol) {
    return symbol ? variables.lookup(symbol.getAttr()) : VariableOp();
  }

  void addOp(Operation *op) {
    if (auto read = dyn_cast<ReadOp>(op)) {
      if (VariableOp variable = findVariable(read.getVariableAttr()))
        addReshard(op, variable.getTensorType(), variable.getSharding(),
                   getSharding(read.getResult()), "read", variable);
    } else if (auto write = dyn_cast<WriteOp>(op)) {
      if (VariableOp variable = findVariable(write.getVariableAttr()))
        addReshard(op, variable.getTensorType(), getSharding(write.getValue()),
                   variable.getSharding(), "write", variable);
    } else if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      if (VariableOp variable = findVariable(accumulate.getVariableAttr()))
        addReshard(op, variable.getTensorType(), getSharding(accumulate.getValue()),
                   variable.getSharding(), "accumulation", variable);
    } else if (isa<ShardingOpInterface>(op) && !isReplicated(op, mesh)) {
      addRuled(op);
    }
  }

  void addReshard(Operation *op, RankedTensorType type, ShardingAttr from, ShardingAttr to,
                  StringRef verb, VariableOp variable) {
    if (from == to)
      return;
    bool sums = from && !from.getPartial().empty();
    add(op, type, from, to, (stringifyVariableKind(variable.getKind()) + " " + verb).str(),
        sums ? "sums of parts of the batch" : "the variable lies otherwise");
  }

  void addRuled(Operation *op) {
    OpSharding sharding = computeOpSharding(op, mesh);
    std::string name = op->getName().getStringRef().str();
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (auto type = dyn_cast<RankedTensorType>(operand.getType());
          type && getSharding(operand) != sharding.operands[i])
        add(op, type, getSharding(operand), sharding.operands[i],
            llvm::formatv("operand {0} of {1}", i, name).str(),
            "the op runs with " + describe(sharding.operands[i]));
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (auto type = dyn_cast<RankedTensorType>(result.getType());
          type && sharding.results[i] != getSharding(result))
        add(op, type, sharding.results[i], getSharding(result), "result of " + name,
            sharding.results[i].getPartial().empty() ? "its users need it so"
                                                     : "a summed dim is split");
  }

  /// Adds the collectives that lead from one sharding to another; slices cost nothing.
  void add(Operation *op, RankedTensorType type, ShardingAttr from, ShardingAttr to,
           const std::string &what, const std::string &why) {
    from = simplify(from, type.getShape(), mesh);
    to = simplify(to, type.getShape(), mesh);
    if (from == to)
      return;
    llvm::SmallVector<std::pair<std::string, SmallVector<StringAttr>>> kinds;
    auto addAxis = [&](StringRef kind, StringAttr axis) {
      for (auto &entry : kinds)
        if (entry.first == kind)
          return entry.second.push_back(axis);
      kinds.push_back({kind.str(), {axis}});
    };
    for (AxisAttr entry : mesh.getAxes()) {
      StringAttr axis = entry.getName();
      int fromDim = findDim(from, axis), toDim = findDim(to, axis);
      if (isPartialOver(from, axis) && !isPartialOver(to, axis))
        addAxis(toDim >= 0 ? "reduce_scatter" : "all_reduce", axis);
      else if (fromDim >= 0 && toDim < 0)
        addAxis("all_gather", axis);
      else if (fromDim >= 0 && fromDim != toDim)
        addAxis("all_to_all", axis);
      else if (fromDim >= 0 && from.getDims()[fromDim] != to.getDims()[toDim])
        addAxis("all_gather", axis);
    }
    for (auto &[kind, axes] : kinds)
      count({kind, joinAxes(axes), getWhen(op), what, why, describeLocation(op->getLoc()), 1,
             getLocalBytes(type, from)});
  }

  void count(ExplainedCollective &&entry) {
    for (ExplainedCollective &known : explanation.collectives)
      if (known.kind == entry.kind && known.axes == entry.axes && known.when == entry.when &&
          known.what == entry.what && known.why == entry.why) {
        known.count += 1;
        known.bytes += entry.bytes;
        return;
      }
    explanation.collectives.push_back(std::move(entry));
  }

  ModuleOp module;
  MeshShape mesh;
  llvm::DenseMap<StringAttr, VariableOp> variables;
  ShardingExplanation explanation;
};

std::string formatBytes(int64_t bytes) {
  if (bytes < 10 * 1024)
    return llvm::formatv("{0} B", bytes);
  if (bytes < 10 * 1024 * 1024)
    return llvm::formatv("{0} KiB", bytes / 1024);
  return llvm::formatv("{0} MiB", bytes / (1024 * 1024));
}

void printTable(ArrayRef<std::vector<std::string>> rows, llvm::raw_ostream &os) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const std::vector<std::string> &row : rows)
    for (auto [i, cell] : llvm::enumerate(row))
      widths[i] = std::max(widths[i], cell.size());
  for (const std::vector<std::string> &row : rows) {
    std::string line = " ";
    for (auto [i, cell] : llvm::enumerate(row))
      line += " " + cell + std::string(widths[i] - cell.size() + 1, ' ');
    os << StringRef(line).rtrim() << "\n";
  }
}
} // namespace

/// Which form each attention of the forward got.
static void printAttentionForms(ModuleOp module, llvm::raw_ostream &os) {
  std::vector<std::vector<std::string>> rows = {{"at", "form"}};
  module.walk([&](AttentionOp op) {
    auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
    auto form = op->getAttrOfType<StringAttr>("ps.attention_form");
    if (form && (!phase || phase.getValue() == Phase::Forward))
      rows.push_back({describeLocation(op.getLoc()), form.str()});
  });
  if (rows.size() == 1)
    return;
  os << "\nattention\n";
  printTable(rows, os);
}

ShardingExplanation explainShardings(ModuleOp module) { return Explainer(module).run(); }

void print(const ShardingExplanation &explanation, llvm::raw_ostream &os) {
  os << "mesh: " << explanation.mesh << "\n\nparameters\n";
  std::vector<std::vector<std::string>> rows = {{"name", "type", "sharding", "a rank", "why"}};
  for (const ExplainedParameter &p : explanation.parameters)
    rows.push_back({p.name, p.type, p.sharding, formatBytes(p.bytes), p.reason});
  printTable(rows, os);
  os << "\ncollectives (forward and backward: of one micro-batch)\n";
  if (explanation.collectives.empty()) {
    os << "  none\n";
    return;
  }
  rows = {{"count", "bytes", "collective", "axes", "when", "what", "why", "first at"}};
  for (const ExplainedCollective &c : explanation.collectives)
    rows.push_back({std::to_string(c.count), formatBytes(c.bytes), c.kind, c.axes, c.when, c.what,
                    c.why, c.location});
  printTable(rows, os);
}

std::string getExplanation(ModuleOp module) {
  if (auto recorded = module->getAttrOfType<StringAttr>(kExplanationMark))
    return recorded.str();
  if (!getMesh(module))
    return {};
  std::string text;
  llvm::raw_string_ostream os(text);
  print(explainShardings(module), os);
  printAttentionForms(module, os);
  return text;
}

} // namespace parashard::ps
