// Describes why a variable has its sharding.
#include "lib/Sharding/Reasons.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

void setReason(VariableOp variable, const llvm::Twine &reason) {
  variable->setAttr(kReasonMark, StringAttr::get(variable.getContext(), reason));
}

StringRef getReason(VariableOp variable) {
  auto reason = variable->getAttrOfType<StringAttr>(kReasonMark);
  return reason ? reason.getValue() : StringRef();
}

/// Returns the first op that uses the result of `read`.
static Operation *getFirstUser(ReadOp read) {
  Operation *first = nullptr;
  for (Operation *user : read->getUsers())
    if (user->getBlock() == read->getBlock() && (!first || user->isBeforeInBlock(first)))
      first = user;
  return first;
}

void recordUses(ModuleOp module) {
  SymbolTable symbols(module);
  for (auto function : module.getOps<func::FuncOp>())
    function.walk([&](ReadOp read) {
      auto symbol = read.getVariableAttr();
      auto variable = symbol ? symbols.lookup<VariableOp>(symbol.getAttr()) : VariableOp();
      if (!variable || variable.getKind() != VariableKind::Parameter ||
          variable->hasAttr(kUsedAtMark))
        return;
      if (Operation *user = getFirstUser(read))
        variable->setAttr(kUsedAtMark,
                          StringAttr::get(module.getContext(), describeLocation(user->getLoc())));
    });
}

std::string describeLocation(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc)) {
    std::string child = describeLocation(name.getChildLoc());
    return child.empty() ? name.getName().str() : name.getName().str() + " (" + child + ")";
  }
  if (auto file = dyn_cast<FileLineColLoc>(loc)) {
    std::string base = llvm::sys::path::filename(file.getFilename().getValue()).str();
    return file.getLine() ? base + ":" + std::to_string(file.getLine()) : base;
  }
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations())
      if (std::string text = describeLocation(part); !text.empty())
        return text;
    return {};
  }
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return describeLocation(call.getCallee());
  return {};
}

static bool isReplicated(const ShardingNode &node) { return llvm::all_of(node.splits, isWhole); }

static std::string followsVariable(const ShardingNode &node) {
  return "follows " + VariableOp(node.variable).getDisplayName().str();
}

std::string describeCause(const ShardingGraph &graph, unsigned number) {
  if (VariableOp variable = graph.nodes[number].variable; variable && variable.getOfAttr()) {
    auto owner = graph.variables.find(variable.getOfAttr().getAttr());
    if (owner != graph.variables.end())
      return followsVariable(graph.nodes[owner->second]);
  }
  // Follows the propagation of the splits back from node to node, at most 8 times. Stops at an op,
  // a variable or a seed.
  for (unsigned steps = 0; steps < 8; ++steps) {
    const ShardingNode &node = graph.nodes[number];
    if (node.cause < 0)
      break;
    const ShardingEdge &edge = graph.edges[node.cause];
    if (edge.kind == ShardingEdge::Kind::Op) {
      std::string where = describeLocation(edge.op->getLoc());
      return "follows " + edge.op->getName().getStringRef().str() +
             (where.empty() ? "" : " at " + where);
    }
    if (edge.kind == ShardingEdge::Kind::Belongs && edge.results[0] == int(number))
      return followsVariable(graph.nodes[edge.operands[0]]);
    int other = edge.operands[0] == int(number) ? edge.results[0] : edge.operands[0];
    if (graph.nodes[other].variable)
      return followsVariable(graph.nodes[other]);
    number = other;
  }
  return isReplicated(graph.nodes[number]) ? "replicated: propagation found no split" : "seed";
}

} // namespace parashard::sharding
