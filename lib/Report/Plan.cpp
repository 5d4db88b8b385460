// Gathers the plan: mesh, parameters and collectives, like `--explain`.
#include "Gather.h"
#include "lib/IR/Collectives.h"
#include "lib/Sharding/Explain.h"
#include "lib/Sharding/Reasons.h"

using namespace mlir;
namespace json = llvm::json;

namespace parashard::report {

std::string toText(StringRef text) { return json::isUTF8(text) ? text.str() : json::fixUTF8(text); }

json::Array listMesh(ModuleOp module) {
  json::Array axes;
  if (ps::MeshOp mesh = ps::getMesh(module))
    for (auto axis : mesh.getAxes().getAsRange<ps::AxisAttr>())
      if (axis.getKind() != ps::AxisKind::Multiple)
        axes.push_back(json::Object{{"name", toText(axis.getName().getValue())},
                                    {"kind", ps::stringifyAxisKind(axis.getKind())},
                                    {"size", axis.getSize()}});
  return axes;
}

static std::string getUsedAt(ps::VariableOp variable) {
  auto location = variable->getAttrOfType<StringAttr>(kUsedAtMark);
  return location ? location.str() : std::string();
}

/// Lists the other names of a tied parameter.
static json::Array listAliases(ps::VariableOp variable) {
  json::Array aliases;
  if (auto names = variable.getNamesAttr())
    for (auto name : names.getAsRange<StringAttr>())
      if (name.getValue() != variable.getDisplayName())
        aliases.push_back(toText(name.getValue()));
  return aliases;
}

json::Array listParameters(ModuleOp module, ParameterSum &sum) {
  json::Array rows;
  if (!ps::getMesh(module))
    return rows;
  for (const sharding::ExplainedParameter &p : sharding::explainShardings(module).parameters) {
    RankedTensorType type = ps::VariableOp(p.variable).getTensorType();
    sum.count += 1;
    sum.elements += type.getNumElements();
    sum.bytes += ps::getByteSize(type);
    sum.localBytes += p.bytes;
    rows.push_back(json::Object{{"name", toText(p.name)},
                                {"aliases", listAliases(p.variable)},
                                {"shape", json::Array(p.shape)},
                                {"dtype", p.dtype},
                                {"sharding", toText(p.sharding)},
                                {"local", json::Array(p.local)},
                                {"bytes", p.bytes},
                                {"frozen", ps::VariableOp(p.variable).getFrozen()},
                                {"why", toText(p.reason)},
                                {"at", toText(getUsedAt(p.variable))}});
  }
  return rows;
}

/// Returns how often a part of the program runs per step. Returns 0 for `evaluate`, which is not in
/// a step.
static int64_t getTimes(StringRef when, int64_t microBatches) {
  return when == "evaluate" ? 0 : when == "update" ? 1 : microBatches;
}

json::Value listCollectives(ModuleOp module, int64_t microBatches, CollectiveSum &sum) {
  std::optional<std::vector<ir::ExplainedCollective>> collectives = ir::getCollectives(module);
  if (!collectives)
    return nullptr;
  json::Array rows;
  for (const ir::ExplainedCollective &row : *collectives) {
    int64_t times = getTimes(row.when, microBatches), bytes = 0;
    json::Array locations;
    for (auto [location, size] : llvm::zip_equal(row.locations, row.bytes)) {
      locations.push_back(json::Object{{"at", toText(location)}, {"bytes", size}});
      bytes += size;
    }
    sum.count += times * int64_t(row.locations.size());
    sum.bytes += times * bytes;
    rows.push_back(json::Object{{"kind", row.kind},
                                {"axes", toText(row.axes)},
                                {"when", row.when},
                                {"what", toText(row.what)},
                                {"why", toText(row.why)},
                                {"count", int64_t(row.locations.size())},
                                {"bytes", bytes},
                                {"times", times},
                                {"locations", std::move(locations)}});
  }
  return rows;
}

} // namespace parashard::report
