// Copies between a rank's host memory and its GPU memory, on separate streams.
#ifndef PSRT_DEVICE_CUDA_CUDATRANSFERS_H
#define PSRT_DEVICE_CUDA_CUDATRANSFERS_H

#include "runtime/core/Backend.h"
#include "runtime/device/cuda/Gpu.h"
#include <deque>
#include <map>

namespace psrt::cuda {

/// Each direction (to the host, to the GPU) has a stream, created on first use. A copy runs after
/// the work that was enqueued on the rank's stream before it. Work that is enqueued after the
/// matching WaitOp runs after the copy. The host never waits, so transfers can be captured in CUDA
/// graphs.
class Transfers {
public:
  explicit Transfers(StreamRef stream) : stream(std::move(stream)) {}
  void bind(const TransferOp &op, Bound &bound);
  /// Binds a wait for the transfer that was bound last with the same token.
  void bind(const WaitOp &op, Bound &bound);

private:
  /// One transfer, which every run enqueues again.
  struct Transfer {
    Transfer(Transfers &owner, const StreamRef &copyStream)
        : owner(owner), copyStream(copyStream), ready(copyStream->getGpu()),
          done(copyStream->getGpu()) {}
    Transfers &owner;
    StreamRef copyStream;
    Event ready, done;
  };
  static void start(const Bound &bound);
  static void wait(const Bound &bound);
  const StreamRef &getCopyStream(bool toHost);

  StreamRef stream, toHost, toDevice;
  std::deque<Transfer> transfers;
  std::map<int64_t, Transfer *> byToken;
};

} // namespace psrt::cuda

#endif
