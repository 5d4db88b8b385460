// Captures runs of an entry as CUDA graphs. The first run enqueues each instruction. The second run
// is captured, and this and later runs launch the captured graph.
#ifndef PSRT_DEVICE_CUDA_RECORDINGS_H
#define PSRT_DEVICE_CUDA_RECORDINGS_H

#include "runtime/core/Backend.h"
#include "runtime/device/cuda/Gpu.h"
#include <functional>
#include <map>

namespace psrt::cuda {

/// The captured graphs of one stream, by range of instructions. Values that change between runs are
/// never parameters of enqueued operations; instructions read them from memory (ScalarMirror). A
/// range is not captured if one of its instructions needs the host in each run, e.g. to wait for
/// other threads. PSRT_CUDA_GRAPHS=0 disables capturing.
class Recordings {
public:
  explicit Recordings(StreamRef stream);
  ~Recordings();
  Recordings(const Recordings &) = delete;
  Recordings &operator=(const Recordings &) = delete;
  /// Runs the instructions [first, last), which `enqueue` enqueues in the stream.
  void run(const Bound *first, const Bound *last, const std::function<void()> &enqueue);

  /// Destroys all captured graphs.
  void clear();
  /// Returns the number of captured graphs.
  size_t count() const;

private:
  struct Recording {
    int64_t runs = 0;
    bool isPlain = false; ///< never captured
    CUgraphExec exec = nullptr;
  };
  /// Captures a run as an executable graph. If the run cannot be captured, prints the reason to
  /// stderr and returns null.
  CUgraphExec record(const std::function<void()> &enqueue);
  CUgraph capture(const std::function<void()> &enqueue);

  StreamRef stream;
  bool isOn = true;
  std::map<std::pair<const Bound *, const Bound *>, Recording> recordings;
};

} // namespace psrt::cuda

#endif
