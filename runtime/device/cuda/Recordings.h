// Captures runs of an entry as CUDA graphs. The first run enqueues each instruction, the second is
// captured, and later runs launch the captured graph.
#ifndef PSRT_DEVICE_CUDA_RECORDINGS_H
#define PSRT_DEVICE_CUDA_RECORDINGS_H

#include "runtime/core/Backend.h"
#include "runtime/device/cuda/Gpu.h"
#include <functional>
#include <map>

namespace psrt::cuda {

/// The captured graphs of one stream, by range of instructions. Data that changes between runs is
/// in memory that instructions read (ScalarMirror), never in the enqueued operations. A range is
/// never captured if an instruction needs the host in each run, e.g. to wait for other threads.
/// PSRT_CUDA_GRAPHS=0 disables capturing.
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
  /// Returns null and prints the reason to stderr if the run cannot be captured.
  CUgraphExec record(const std::function<void()> &enqueue);
  CUgraph capture(const std::function<void()> &enqueue);

  StreamRef stream;
  bool isOn = true;
  std::map<std::pair<const Bound *, const Bound *>, Recording> recordings;
};

} // namespace psrt::cuda

#endif
