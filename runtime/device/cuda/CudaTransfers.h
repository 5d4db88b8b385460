// Copies between the host's part of a rank's memory and the GPU's, on streams of their own.
#ifndef PSRT_DEVICE_CUDA_CUDATRANSFERS_H
#define PSRT_DEVICE_CUDA_CUDATRANSFERS_H

#include "runtime/core/Backend.h"
#include "runtime/device/cuda/Gpu.h"
#include <deque>
#include <map>

namespace psrt::cuda {

/// Each way has a stream, made when it is asked for first. A copy comes after what the rank's
/// stream had when it was started, and what that has from the wait on comes after the copy; the
/// host waits for nothing, so all of it can be recorded.
class Transfers {
public:
  explicit Transfers(StreamRef stream) : stream(std::move(stream)) {}
  void bind(const TransferOp &op, Bound &bound);
  /// A wait for what was bound last with its token.
  void bind(const WaitOp &op, Bound &bound);

private:
  /// One copy as it is enqueued in every run.
  struct Transfer {
    Transfer(Transfers &owner, const StreamRef &way)
        : owner(owner), way(way), ready(way->getGpu()), done(way->getGpu()) {}
    Transfers &owner;
    StreamRef way;
    Event ready, done;
  };
  static void start(const Bound &bound);
  static void wait(const Bound &bound);
  const StreamRef &getWay(bool toHost);

  StreamRef stream, toHost, toDevice;
  std::deque<Transfer> transfers;
  std::map<int64_t, Transfer *> byToken;
};

} // namespace psrt::cuda

#endif
