// Records runs of an entry as CUDA graphs. The first run enqueues each instruction, the second is
// recorded, and later runs launch the recording.
#ifndef PSRT_DEVICE_CUDA_RECORDINGS_H
#define PSRT_DEVICE_CUDA_RECORDINGS_H

#include "runtime/core/Backend.h"
#include "runtime/device/cuda/Gpu.h"
#include <functional>
#include <map>

namespace psrt::cuda {

/// Data that changes between runs is in memory that instructions read (ScalarMirror), never in the
/// enqueued operations. Ranges with an instruction that needs the host in each run, e.g. to meet
/// other threads, are never recorded. PSRT_CUDA_GRAPHS=0 disables recording.
class Recordings {
public:
  explicit Recordings(StreamRef stream);
  ~Recordings();
  Recordings(const Recordings &) = delete;
  Recordings &operator=(const Recordings &) = delete;
  /// Runs the instructions that `enqueue` enqueues in the stream.
  void run(const Bound *first, const Bound *last, const std::function<void()> &enqueue);

  /// Destroys all recordings.
  void clear();
  /// Returns the number of recordings.
  size_t count() const;

private:
  struct Recording {
    int64_t runs = 0;
    bool isPlain = false; ///< never recorded
    CUgraphExec exec = nullptr;
  };
  /// Returns null if the run cannot be recorded; prints the reason to stderr.
  CUgraphExec record(const std::function<void()> &enqueue);
  CUgraph capture(const std::function<void()> &enqueue);

  StreamRef stream;
  bool isOn = true;
  std::map<std::pair<const Bound *, const Bound *>, Recording> recordings;
};

} // namespace psrt::cuda

#endif
