// Runs instructions implemented by the runtime's kernels: embeddings, pooling, shard indices and
// shard slices. Binding chooses the kernels and their arguments.
#include "runtime/device/cuda/CudaDevice.h"
#include <algorithm>

namespace psrt::cuda {
namespace {

struct PreparedLaunches : Prepared {
  Launches launches;
  std::vector<Access> more; ///< accesses of the workspace
};

void runLaunches(const Bound &bound) {
  const auto &p = *static_cast<const PreparedLaunches *>(static_cast<Prepared *>(bound.prepared));
  CudaRank &rank = CudaRank::of(bound);
  rank.getLibrary().launch(*rank.getStream(), p.launches, rank.findAccesses(bound, p.more));
}

} // namespace

void bindLaunches(CudaRank &rank, Bound &bound, Launches launches, CUdeviceptr work,
                  int64_t workBytes) {
  auto p = std::make_unique<PreparedLaunches>();
  for (const KernelLaunch &launch : launches)
    rank.getLibrary().find(launch.kernel); // loads the kernel before the first run
  p->launches = std::move(launches);
  if (workBytes)
    p->more.push_back({work, work + CUdeviceptr(workBytes), 1});
  bound.run = runLaunches;
  bound.prepared = static_cast<Prepared *>(rank.keep(std::move(p)));
}

void bindCall(CudaRank &rank, const EmbeddingOp &op, Bound &bound) {
  int64_t bytes = workspaceBytes(op);
  CUdeviceptr work = rank.getScratch(bytes);
  bindLaunches(rank, bound,
               launchEmbedding(op, bound.buffers, bound.accumulate, reinterpret_cast<void *>(work)),
               work, bytes);
}

void bindCall(CudaRank &rank, const MaxPoolOp &op, Bound &bound) {
  bindLaunches(rank, bound, launchMaxPool(op, bound.buffers));
}

/// Binds an instruction that writes a shard index. The executor has stored this index in `key`.
void bindShardIndex(CudaRank &rank, Bound &bound) {
  bindLaunches(rank, bound, launchShardIndex(bound.buffers[0], bound.key));
}

void bindShardSlice(CudaRank &rank, const CollectiveOp &op, Bound &bound) {
  auto index = int(rank.getProgram().mesh.shardIndex(op.axes, *bound.coordinates));
  bindLaunches(rank, bound, launchShardSlice(op, index, bound.buffers[0], bound.buffers[1]));
}

} // namespace psrt::cuda
