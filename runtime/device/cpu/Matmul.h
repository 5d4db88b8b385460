// Manages oneDNN matmul primitives, created once per shape and shared by all ranks. Each thread has
// its own handles.
#ifndef PSRT_DEVICE_CPU_MATMUL_H
#define PSRT_DEVICE_CPU_MATMUL_H

#include "runtime/core/Program.h"
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace psrt {

/// out[m, n] = lhs[m, k] rhs[k, n] (+ bias[n]) (+ out) on one thread, accumulated in f32. Strides
/// are {row, column}, in elements.
struct MatmulShape {
  int64_t m = 0, n = 0, k = 0;
  std::array<int64_t, 2> lhs{}, rhs{}, out{};
  bool accumulate = false, bias = false;
  Dtype dtype = Dtype::F32, outDtype = Dtype::F32; ///< of lhs and rhs, and of out; bias is f32
  auto operator<=>(const MatmulShape &) const = default;
};

/// A primitive. Several threads may run a primitive at once, since the caller provides scratch
/// memory.
struct MatmulPrimitive {
  int index = 0;
  dnnl::matmul primitive;
  dnnl::memory::desc lhs, rhs, out, bias, scratch;
};

/// The primitives of a process.
class MatmulCache {
public:
  MatmulCache() : engine(dnnl::engine::kind::cpu, 0) {}
  /// Finds or creates a primitive. Thread-safe.
  const MatmulPrimitive *get(const MatmulShape &shape);
  const dnnl::engine &getEngine() const { return engine; }

private:
  dnnl::engine engine;
  std::mutex mutex;
  std::map<MatmulShape, std::unique_ptr<MatmulPrimitive>> primitives;
};

/// The handles and scratch memory of one thread. run() allocates no memory, except inside oneDNN.
class MatmulRunner {
public:
  explicit MatmulRunner(MatmulCache &cache);
  /// Creates the handles of a primitive; must be called before the primitive's first run.
  void prepare(const MatmulPrimitive *primitive);
  void run(const MatmulPrimitive *primitive, const void *lhs, const void *rhs, void *out,
           const float *bias);

private:
  struct Handles {
    dnnl::memory lhs, rhs, out, bias, scratch;
    bool ready = false;
  };
  MatmulCache &cache;
  dnnl::stream stream;
  std::vector<Handles> handles; ///< by primitive index
  std::vector<char> scratch;
};

/// Returns whether oneDNN computes matmuls of the dtype natively on this machine. (oneDNN emulates
/// bf16 where the machine has no instructions for it.)
bool hasMatmuls(Dtype dtype);
/// Returns oneDNN's bf16 for BF16, and f32 for every other dtype.
dnnl::memory::data_type toDnnl(Dtype dtype);

/// Limits OpenMP, which oneDNN may use, to the calling thread. The destructor restores the thread's
/// limit, since the thread may belong to a host that uses OpenMP itself.
class OneOpenMPThread {
public:
  OneOpenMPThread();
  ~OneOpenMPThread();
  OneOpenMPThread(const OneOpenMPThread &) = delete;
  OneOpenMPThread &operator=(const OneOpenMPThread &) = delete;

private:
  int before = 1;
};

} // namespace psrt

#endif
