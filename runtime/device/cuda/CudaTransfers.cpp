// Enqueues copies. Before a copy, the copy stream waits for the rank's stream. At the WaitOp, the
// rank's stream waits for the copy.
#include "runtime/device/cuda/CudaTransfers.h"
#include "runtime/core/Status.h"

namespace psrt::cuda {

const StreamRef &Transfers::getCopyStream(bool isToHost) {
  StreamRef &copyStream = isToHost ? toHost : toDevice;
  if (!copyStream)
    copyStream = std::make_shared<Stream>(stream->getGpu());
  return copyStream;
}

void Transfers::bind(const TransferOp &op, Bound &bound) {
  Transfer &transfer = transfers.emplace_back(*this, getCopyStream(op.toHost));
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
  const Gpu &gpu = *transfer.copyStream->getGpu();
  transfer.ready.record(*transfer.owner.stream);
  transfer.ready.makeWait(*transfer.copyStream);
  for (size_t i = 0; i < op.sizes.size(); ++i) {
    void *from = bound.buffers[i], *to = bound.buffers[op.sizes.size() + i];
    CUresult result =
        op.toHost
            ? gpu.getDriver().memcpyDtoHAsync(to, reinterpret_cast<CUdeviceptr>(from),
                                              size_t(op.sizes[i]), transfer.copyStream->get())
            : gpu.getDriver().memcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to), from,
                                              size_t(op.sizes[i]), transfer.copyStream->get());
    gpu.check(result, "to copy to or from host memory");
  }
  transfer.done.record(*transfer.copyStream);
}

void Transfers::wait(const Bound &bound) {
  Transfer &transfer = *static_cast<Transfer *>(bound.prepared);
  transfer.done.makeWait(*transfer.owner.stream);
}

} // namespace psrt::cuda
