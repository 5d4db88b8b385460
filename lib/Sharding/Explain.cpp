// Reads the shardings of a module and prints them as a table.
#include "lib/Sharding/Explain.h"
#include "lib/Sharding/Reasons.h"
#include "shared/PrintableText.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

std::string describe(ShardingAttr sharding) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << sharding;
  size_t begin = text.find('['), end = text.rfind('>');
  return begin == std::string::npos ? text : text.substr(begin, end - begin);
}

namespace {
class Explainer {
public:
  explicit Explainer(ModuleOp module) : module(module), mesh(getMesh(module)) {}

  ShardingExplanation run() {
    for (AxisAttr axis : mesh.getAxes())
      if (axis.getKind() != AxisKind::Multiple)
        explanation.mesh +=
            llvm::formatv("{0}{1} = {2} ({3})", explanation.mesh.empty() ? "" : ", ",
                          axis.getName().getValue(), axis.getSize(),
                          stringifyAxisKind(axis.getKind()))
                .str();
    for (auto variable : module.getOps<VariableOp>())
      if (variable.getKind() == VariableKind::Parameter && variable.getSharding())
        addParameter(variable);
    return std::move(explanation);
  }

private:
  /// Returns the name of a variable in the model. Returns the symbol if the variable is a part of a
  /// split variable.
  static std::string getName(VariableOp variable) {
    StringRef name = variable.getDisplayName(), symbol = variable.getSymName();
    return symbol.starts_with(name) ? symbol.str() : name.str();
  }

  void addParameter(VariableOp variable) {
    RankedTensorType type = variable.getTensorType();
    std::string dtype;
    llvm::raw_string_ostream(dtype) << type.getElementType();
    std::vector<int64_t> local;
    for (const Split &split : getSplits(variable.getSharding(), type.getShape(), mesh))
      local.push_back(getLocalSize(split, mesh));
    int64_t bytes = getByteSize(RankedTensorType::get(local, type.getElementType()));
    explanation.parameters.push_back({getName(variable), type.getShape().vec(), dtype, local,
                                      describe(variable.getSharding()), getReason(variable).str(),
                                      bytes, variable});
  }

  ModuleOp module;
  MeshShape mesh;
  ShardingExplanation explanation;
};

} // namespace

std::string formatBytes(int64_t bytes) {
  if (bytes < 10 * 1024)
    return llvm::formatv("{0} B", bytes);
  if (bytes < 10 * 1024 * 1024)
    return llvm::formatv("{0} KiB", bytes / 1024);
  return llvm::formatv("{0} MiB", bytes / (1024 * 1024));
}

void printTable(ArrayRef<std::vector<std::string>> given, llvm::raw_ostream &os) {
  std::vector<std::vector<std::string>> rows(given.begin(), given.end());
  for (std::vector<std::string> &row : rows)
    for (std::string &cell : row)
      cell = escapeControls(cell); // names come from the model
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

static bool isOfForward(Operation *op) {
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
  return !phase || phase.getValue() == Phase::Forward;
}

/// Prints a table under its heading. Prints nothing if `rows` holds only the header row.
static void printSection(StringRef heading, ArrayRef<std::vector<std::string>> rows,
                         llvm::raw_ostream &os) {
  if (rows.size() == 1)
    return;
  os << "\n" << heading << "\n";
  printTable(rows, os);
}

/// Prints the form chosen for each attention of the forward.
static void printAttentionForms(ModuleOp module, llvm::raw_ostream &os) {
  std::vector<std::vector<std::string>> rows = {{"at", "form"}};
  module.walk([&](AttentionOp op) {
    auto form = op->getAttrOfType<StringAttr>(kAttentionFormMark);
    if (form && isOfForward(op))
      rows.push_back({describeLocation(op.getLoc()), form.str()});
  });
  printSection("attention", rows, os);
}

/// Prints the values of the forward that the policy splits, with the reasons.
static void printSplitValues(ModuleOp module, llvm::raw_ostream &os) {
  std::vector<std::vector<std::string>> rows = {{"at", "sharding", "why"}};
  module.walk([&](Operation *op) {
    auto reason = op->getAttrOfType<StringAttr>(kReasonMark);
    if (reason && op->getNumResults() > 0 && isOfForward(op))
      rows.push_back(
          {describeLocation(op->getLoc()), describe(getSharding(op->getResult(0))), reason.str()});
  });
  printSection("activations", rows, os);
}

ShardingExplanation explainShardings(ModuleOp module) { return Explainer(module).run(); }

/// Returns the shape and dtype of a parameter. Example: 8192x384xf32.
static std::string getType(const ExplainedParameter &parameter) {
  std::string text;
  for (int64_t size : parameter.shape)
    text += std::to_string(size) + "x";
  return text + parameter.dtype;
}

void print(const ShardingExplanation &explanation, llvm::raw_ostream &os) {
  os << "mesh: " << explanation.mesh << "\n\nparameters\n";
  std::vector<std::vector<std::string>> rows = {{"name", "type", "sharding", "per rank", "why"}};
  for (const ExplainedParameter &p : explanation.parameters)
    rows.push_back({p.name, getType(p), p.sharding, formatBytes(p.bytes), p.reason});
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
  printSplitValues(module, os);
  return text;
}

} // namespace parashard::sharding
