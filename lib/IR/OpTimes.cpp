// Estimates the seconds of ops from `CostOpInterface` and the rates of a cluster.
#include "lib/IR/OpTimes.h"
#include "dialects/ps/Refusal.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace parashard::costs;

namespace parashard::ir {

bool isView(Operation *op) {
  return isa<ps::ReshapeOp, ps::TransposeOp, ps::BroadcastOp, ps::SliceOp, ps::WaitOp>(op);
}

bool hasNoKernel(Operation *op) {
  return isView(op) || isa<ps::ReadOp, ps::WriteOp, ps::AccumulateOp>(op) ||
         op->hasTrait<OpTrait::ConstantLike>() || op->hasTrait<OpTrait::IsTerminator>();
}

FailureOr<Cluster> findCluster(ModuleOp module) {
  auto given = module->getAttrOfType<StringAttr>(ps::kClusterMark);
  llvm::Expected<SizedCluster> found =
      costs::findCluster(given ? given.getValue() : costs::getDefaultPreset("cpu"));
  if (found)
    return std::move(found->cluster);
  return ps::refuseFlag(module, "cluster") << ": " << llvm::toString(found.takeError());
}

int64_t sumBytes(TypeRange types) {
  int64_t bytes = 0;
  for (Type type : types)
    if (isa<RankedTensorType>(type))
      bytes += ps::getByteSize(type);
  return bytes;
}

/// Returns the key of an element type in cluster files.
static std::string getRateKey(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8)
    return "f8";
  std::string key;
  llvm::raw_string_ostream(key) << element;
  return key;
}

static Contraction getContraction(ps::FlopKind kind) {
  switch (kind) {
  case ps::FlopKind::Matmul:
    return Contraction::Matmul;
  case ps::FlopKind::Attention:
    return Contraction::Attention;
  case ps::FlopKind::AttentionGrad:
    return Contraction::AttentionGrad;
  }
  return Contraction::Matmul;
}

Call getContractions(const ps::OpCost &cost, TypeRange operands) {
  Call call;
  call.flops = double(cost.contractionFlops);
  call.kind = getContraction(cost.flopKind);
  // Uses the type of the first float operand, because indices and masks add no flops.
  for (Type type : operands)
    if (isa<FloatType>(getElementTypeOrSelf(type))) {
      call.type = getRateKey(type);
      break;
    }
  return call;
}

/// Adds the contractions of an op to a call.
static void addFlops(Operation *op, Call &call) {
  auto priced = dyn_cast<ps::CostOpInterface>(op);
  if (!priced)
    return;
  Call own = getContractions(priced.getCost(op->getOperandTypes(), op->getResultTypes()),
                             op->getOperandTypes());
  if (own.flops == 0)
    return;
  call.flops += own.flops;
  call.kind = own.kind;
  call.type = own.type;
}

static Call findCall(Operation *op) {
  Call call;
  call.bytes = double(sumBytes(op->getOperandTypes()) + sumBytes(op->getResultTypes()));
  if (auto fused = dyn_cast<ps::FusedOp>(op)) {
    for (Operation &inner : fused.getBody().front())
      addFlops(&inner, call);
    call.kernels = fused->hasAttr(kWorkspaceMark) ? 2 : 1; // a second kernel adds partial sums
  } else
    addFlops(op, call);
  return call;
}

Call OpTimes::getCall(Operation *op) const {
  if (!calls)
    return findCall(op);
  auto [found, isNew] = calls->try_emplace(op);
  if (isNew)
    found->second = findCall(op);
  return found->second;
}

OpTimes::OpTimes(const Cluster &cluster, ps::MeshOp mesh) : cluster(cluster) {
  if (mesh)
    for (auto axis : mesh.getAxes().getAsRange<ps::AxisAttr>())
      axes.push_back({axis.getName(), axis.getDevices()});
}

double OpTimes::getSeconds(Operation *op) const {
  return costs::getSeconds(cluster.device, getCall(op));
}

int64_t getCollectiveBytes(TypeRange operands, TypeRange results) {
  return std::max(sumBytes(operands), sumBytes(results));
}

std::optional<Collective> findCollective(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<Collective>>(op)
      .Case<ps::AllReduceOp>([](auto) { return Collective::AllReduce; })
      .Case<ps::ReduceScatterOp>([](auto) { return Collective::ReduceScatter; })
      .Case<ps::AllGatherOp>([](auto) { return Collective::AllGather; })
      .Case<ps::AllToAllOp>([](auto) { return Collective::AllToAll; })
      .Case<ps::PermuteOp>([](auto) { return Collective::Permute; })
      .Default([](auto) { return std::nullopt; });
}

double OpTimes::getCollectiveSeconds(Operation *collective, int64_t count) const {
  auto axes =
      llvm::to_vector(collective->getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>());
  return getCollectiveSeconds(
      *findCollective(collective), axes,
      double(getCollectiveBytes(collective->getOperandTypes(), collective->getResultTypes())) /
          double(count));
}

double OpTimes::getCollectiveSeconds(Collective collective, ArrayRef<StringAttr> axes,
                                     double bytes) const {
  return costs::getSeconds(cluster, collective, getGroup(axes), bytes);
}

int64_t OpTimes::getStride(StringAttr axis) const {
  int64_t stride = 1;
  for (const AxisSize &other : llvm::reverse(axes)) {
    if (other.name == axis)
      break;
    stride *= other.size;
  }
  return stride;
}

Group OpTimes::getGroup(ArrayRef<StringAttr> names) const {
  Group group;
  for (StringAttr name : names)
    for (const AxisSize &axis : axes)
      if (axis.name == name && axis.size > 1)
        group.push_back({getStride(name), axis.size});
  return group;
}

} // namespace parashard::ir
