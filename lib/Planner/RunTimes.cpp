// Replays class functions.
#include "lib/Planner/RunTimes.h"
#include "lib/Fusion/AsyncCollectives.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::planner {
namespace {

/// A started collective.
struct Transfer {
  double begin = 0, end = 0;
  double firstChunk = 0; ///< end of its first chunk
  int64_t chunks = 1;
  Part part = Part::TensorParallel; ///< of the time spent waiting for it
};

class FunctionReplay {
public:
  FunctionReplay(func::FuncOp function, const ir::OpTimes &times)
      : function(function), times(times) {
    auto phase = function->getAttrOfType<PhaseAttr>(kPhaseMark);
    isUpdate = phase && phase.getValue() == Phase::Update;
    if (MeshOp mesh = getMesh(function->getParentOfType<ModuleOp>()))
      dataAxes = mesh.getAxesOfKind(AxisKind::Data);
  }

  Breakdown run() {
    for (Operation &op : function.getBody().front())
      if (auto wait = dyn_cast<WaitOp>(op))
        waitForFirst(wait.getOperand().getDefiningOp());
      else if (ir::findCollective(&op))
        communicate(&op);
      else if (!ir::hasNoKernel(&op))
        compute(&op);
    return parts;
  }

private:
  void spend(Part part, double seconds) {
    now += seconds;
    parts[part] += seconds;
  }
  Part getPart(Operation *op, const costs::Call &call) const {
    if (isUpdate)
      return Part::Update;
    if (op->hasAttr(kRecomputedMark))
      return Part::Recomputation;
    return call.flops > 0 ? Part::Matmul : Part::Kernel;
  }

  void compute(Operation *op) {
    costs::Call call = times.getCall(op);
    const costs::Device &device = times.getCluster().device;
    double seconds = costs::getSeconds(device, call);
    Operation *collective = nullptr;
    if (auto contract = dyn_cast<ContractOp>(op))
      collective = fusion::getChunkedCollective(contract);
    auto transfer = transfers.find(collective);
    begins[op] = now;
    spend(getPart(op, call), seconds);
    spend(isUpdate ? Part::Update : Part::Launch, costs::getLaunchSeconds(device, call));
    // The last chunk of a matmul starts when the last chunk of its operand has arrived.
    if (transfer != transfers.end())
      waitUntil(transfer->second.end + seconds / double(transfer->second.chunks),
                transfer->second.part);
  }

  void communicate(Operation *op) {
    int64_t chunks = fusion::getChunkCount(op);
    double chunk = times.getCollectiveSeconds(op, chunks);
    Transfer transfer;
    transfer.chunks = chunks;
    transfer.part = getPart(op);
    transfer.begin = std::max(now, queueEnd);
    if (auto matmul = fusion::getChunkedMatmul(op); matmul && !matmul->follows) {
      // The first chunk is sent once the first chunk of the matmul is computed.
      double begin = begins.lookup(matmul->contract);
      transfer.begin = std::max(queueEnd, begin + (now - begin) / double(chunks));
    }
    transfer.firstChunk = transfer.begin + chunk;
    transfer.end = std::max(transfer.begin + double(chunks) * chunk, now + chunk);
    queueEnd = transfer.end;
    transfers[op] = transfer;
    if (!fusion::getWait(op))
      waitUntil(transfer.end, transfer.part);
  }

  /// Waits for a collective; for the first of its chunks if a matmul reads chunk by chunk.
  void waitForFirst(Operation *collective) {
    auto found = transfers.find(collective);
    if (found == transfers.end())
      return;
    const Transfer &transfer = found->second;
    double beside = std::max(0.0, std::min(now, transfer.end) - transfer.begin);
    spend(transfer.part, beside * (times.getCluster().overlapSlowdown - 1));
    auto matmul = fusion::getChunkedMatmul(collective);
    bool isChunked = matmul && matmul->follows;
    waitUntil(isChunked ? transfer.firstChunk : transfer.end, transfer.part);
    if (!isChunked)
      transfers.erase(collective); // only a chunked matmul looks it up again
  }

  /// Returns the part of the waits for a collective: by its axes in forward and backward.
  Part getPart(Operation *collective) const {
    auto axes = collective->getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>();
    bool isOverData =
        llvm::all_of(axes, [&](StringAttr axis) { return llvm::is_contained(dataAxes, axis); });
    return isUpdate || isOverData ? Part::DataParallel : Part::TensorParallel;
  }
  void waitUntil(double end, Part part) {
    if (end > now)
      spend(part, end - now);
  }

  func::FuncOp function;
  const ir::OpTimes &times;
  bool isUpdate = false;
  SmallVector<StringAttr> dataAxes;
  double now = 0, queueEnd = 0;
  Breakdown parts;
  DenseMap<Operation *, Transfer> transfers;
  DenseMap<Operation *, double> begins; ///< of computing ops
};

} // namespace

const Breakdown &RunTimes::get(rank::RunOp run) {
  auto [known, isNew] = this->known.try_emplace(run.getCalleeAttr());
  if (isNew) {
    auto function = symbols.lookup<func::FuncOp>(run.getCallee());
    if (!function.isExternal())
      known->second = FunctionReplay(function, times).run();
  }
  return known->second;
}

} // namespace parashard::planner
