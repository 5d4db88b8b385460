// Replays class functions.
#include "lib/Planner/RunTimes.h"
#include "dialects/ps/Refusal.h"
#include "lib/Fusion/AsyncCollectives.h"
#include "lib/IR/RunLabel.h"
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
  Part part = Part::TensorParallel; ///< to which waits for the collective are added
};

class FunctionReplay {
public:
  /// Creates a replay in which each op takes `scale` times its predicted time.
  FunctionReplay(func::FuncOp function, const ir::OpTimes &times, double scale,
                 double overlapSlowdown)
      : function(function), times(times), scale(scale), overlapSlowdown(overlapSlowdown) {
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
    double seconds = scale * costs::getSeconds(device, call);
    Operation *collective = nullptr;
    if (auto contract = dyn_cast<ContractOp>(op))
      collective = fusion::getChunkedCollective(contract);
    auto transfer = transfers.find(collective);
    begins[op] = now;
    spend(getPart(op, call), seconds);
    spend(Part::Launch, scale * costs::getLaunchSeconds(device, call));
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

  /// Waits for a collective. If a matmul reads the result chunk by chunk, waits only for the first
  /// chunk.
  void waitForFirst(Operation *collective) {
    auto found = transfers.find(collective);
    if (found == transfers.end())
      return;
    const Transfer &transfer = found->second;
    double beside = std::max(0.0, std::min(now, transfer.end) - transfer.begin);
    spend(transfer.part, beside * (overlapSlowdown - 1));
    auto matmul = fusion::getChunkedMatmul(collective);
    bool isChunked = matmul && matmul->follows;
    waitUntil(isChunked ? transfer.firstChunk : transfer.end, transfer.part);
    if (!isChunked)
      transfers.erase(collective); // only a chunked matmul uses the transfer after the wait
  }

  /// Returns the part of the step to which waits for a collective are added. In forward and
  /// backward, the part depends on the axes of the collective.
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
  double scale, overlapSlowdown;
  bool isUpdate = false;
  SmallVector<StringAttr> dataAxes;
  double now = 0, queueEnd = 0;
  Breakdown parts;
  DenseMap<Operation *, Transfer> transfers;
  DenseMap<Operation *, double> begins; ///< start times of ops that are not collectives
};

} // namespace

/// Returns the seconds of a run without its waits for collectives.
static double sumOps(const Breakdown &parts) {
  return parts.sum() - parts[Part::TensorParallel] - parts[Part::DataParallel];
}

const Breakdown &RunTimes::getModelled(rank::RunOp run) {
  auto [known, isNew] = this->known.try_emplace(run.getCalleeAttr());
  if (isNew) {
    auto function = symbols.lookup<func::FuncOp>(run.getCallee());
    if (!function.isExternal())
      known->second = FunctionReplay(function, times, 1, getOverlapSlowdown()).run();
  }
  return known->second;
}

llvm::Error RunTimes::checkMeasured(rank::RunOp run) {
  if (!measured || sumOps(getModelled(run)) <= 0 || measured->contains(ir::getRunLabel(run)))
    return llvm::Error::success();
  return createFlagError("measured", ": the trace is of another program: it has no run of \"" +
                                         ir::getRunLabel(run) +
                                         "\"; trace a program that is compiled from the same model "
                                         "with the same flags");
}

const Breakdown &RunTimes::get(rank::RunOp run) {
  const Breakdown &modelled = getModelled(run);
  double ops = sumOps(modelled);
  if (!measured || ops <= 0)
    return modelled;
  std::string label = ir::getRunLabel(run);
  auto [made, isNew] = scaled.try_emplace(label);
  if (isNew)
    made->second = FunctionReplay(symbols.lookup<func::FuncOp>(run.getCallee()), times,
                                  measured->lookup(label) / ops, getOverlapSlowdown())
                       .run();
  return made->second;
}

} // namespace parashard::planner
