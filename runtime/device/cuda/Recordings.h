// Runs of an entry as CUDA graphs: the first one is enqueued instruction by instruction, the second
// is recorded, and from then on the recording is launched.
#ifndef PSRT_DEVICE_CUDA_RECORDINGS_H
#define PSRT_DEVICE_CUDA_RECORDINGS_H

#include "runtime/core/Backend.h"
#include "runtime/device/cuda/Gpu.h"
#include <functional>
#include <map>

namespace psrt::cuda {

/// What changes from run to run is in memory that the instructions read (ScalarMirror), never in
/// what is enqueued. Ranges with an instruction that needs the host each time, such as one that
/// meets other threads, are enqueued every time. PSRT_CUDA_GRAPHS=0 records nothing.
class Recordings {
public:
  explicit Recordings(StreamRef stream);
  ~Recordings();
  Recordings(const Recordings &) = delete;
  Recordings &operator=(const Recordings &) = delete;
  /// Runs instructions that `enqueue` puts into the stream.
  void run(const Bound *first, const Bound *last, const std::function<void()> &enqueue);

  /// Destroys all that was recorded.
  void clear();
  /// How many there are.
  size_t count() const;

private:
  struct Recording {
    int64_t runs = 0;
    bool isPlain = false; ///< it is never recorded
    CUgraphExec exec = nullptr;
  };
  /// Null where it cannot be recorded; a line on stderr says why.
  CUgraphExec record(const std::function<void()> &enqueue);
  CUgraph capture(const std::function<void()> &enqueue);

  StreamRef stream;
  bool isOn = true;
  std::map<std::pair<const Bound *, const Bound *>, Recording> recordings;
};

} // namespace psrt::cuda

#endif
