// Enqueues copies and orders streams around them.
#include "runtime/device/cuda/CudaTransfers.h"
#include "runtime/core/Status.h"

namespace psrt::cuda {

const StreamRef &Transfers::getWay(bool isToHost) {
  StreamRef &way = isToHost ? toHost : toDevice;
  if (!way)
    way = std::make_shared<Stream>(stream->getGpu());
  return way;
}

void Transfers::bind(const TransferOp &op, Bound &bound) {
  Transfer &transfer = transfers.emplace_back(*this, getWay(op.toHost));
  byToken[op.token] = &transfer;
  bound.prepared = &transfer;
  bound.run = start;
}

void Transfers::bind(const WaitOp &op, Bound &bound) {
  auto known = byToken.find(op.token);
  if (known == byToken.end())
    PSRT_FAIL(BadInput, "the wait for transfer %lld has no matching start", (long long)op.token);
  bound.prepared = known->second;
  bound.run = wait;
}

void Transfers::start(const Bound &bound) {
  const TransferOp &op = std::get<TransferOp>(bound.instruction->op);
  Transfer &transfer = *static_cast<Transfer *>(bound.prepared);
  const Gpu &gpu = *transfer.way->getGpu();
  transfer.ready.record(*transfer.owner.stream);
  transfer.ready.holdUp(*transfer.way);
  for (size_t i = 0; i < op.sizes.size(); ++i) {
    void *from = bound.buffers[i], *to = bound.buffers[op.sizes.size() + i];
    CUresult result =
        op.toHost ? gpu.getDriver().memcpyDtoHAsync(to, reinterpret_cast<CUdeviceptr>(from),
                                                    size_t(op.sizes[i]), transfer.way->get())
                  : gpu.getDriver().memcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to), from,
                                                    size_t(op.sizes[i]), transfer.way->get());
    gpu.check(result, "to copy to or from host memory");
  }
  transfer.done.record(*transfer.way);
}

void Transfers::wait(const Bound &bound) {
  Transfer &transfer = *static_cast<Transfer *>(bound.prepared);
  transfer.done.holdUp(*transfer.owner.stream);
}

} // namespace psrt::cuda
