// ps-set-mesh: adds the mesh to the module.
#include "dialects/ps/Refusal.h"
#include "lib/Costs/Cluster.h"
#include "lib/Sharding/MeshText.h"
#include "lib/Sharding/Passes.h"

using namespace mlir;

namespace parashard::sharding {

#define GEN_PASS_DEF_SETMESHPASS
#include "lib/Sharding/Passes.h.inc"

namespace {
struct SetMeshPass : impl::SetMeshPassBase<SetMeshPass> {
  using SetMeshPassBase::SetMeshPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (mesh.empty()) {
      ps::refuseFlag(module, "ps-set-mesh") << " needs the option mesh, such as mesh=dp=2,tp=2";
      return signalPassFailure();
    }
    llvm::Expected<std::vector<MeshAxis>> axes = parseMesh(mesh, ranks);
    if (!axes) {
      ps::refuseFlag(module, "mesh") << ": " << llvm::toString(axes.takeError());
      return signalPassFailure();
    }
    if (ps::MeshOp present = ps::getMesh(module)) {
      module.emitError() << "the module already has a mesh; remove its ps.mesh to choose another";
      return signalPassFailure();
    }
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    SmallVector<Attribute> attrs;
    for (const MeshAxis &axis : *axes)
      attrs.push_back(
          ps::AxisAttr::get(&getContext(), builder.getStringAttr(axis.name), axis.size, axis.kind));
    ps::MeshOp::create(builder, module.getLoc(), builder.getStringAttr("mesh"),
                       builder.getArrayAttr(attrs));
    if (cluster.empty())
      return;
    llvm::Expected<costs::SizedCluster> found = costs::findCluster(cluster);
    if (!found) {
      ps::refuseFlag(module, "cluster") << ": " << llvm::toString(found.takeError());
      return signalPassFailure();
    }
    module->setAttr(ps::kClusterMark, builder.getStringAttr(cluster));
  }
};
} // namespace

} // namespace parashard::sharding
