// Manages oneDNN matmul primitives. There is one primitive per shape, which all ranks share. Each
// thread has its own handles.
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

/// Describes a matmul on one thread: out[m, n] = lhs[m, k] rhs[k, n] (+ bias[n]) (+ out). Sums are
/// accumulated in f32. Strides are {row, column}, in elements.
struct MatmulShape {
  int64_t m = 0, n = 0, k = 0;
  std::array<int64_t, 2> lhs{}, rhs{}, out{};
  bool accumulate = false, bias = false;
  /// The dtype of lhs and rhs, and the dtype of out. The bias is f32.
  Dtype dtype = Dtype::F32, outDtype = Dtype::F32;
  auto operator<=>(const MatmulShape &) const = default;
};

/// A oneDNN matmul. Several threads may run one primitive at once, because each caller provides its
/// own scratch memory.
struct MatmulPrimitive {
  int index = 0;
  dnnl::matmul primitive;
  dnnl::memory::desc lhs, rhs, out, bias, scratch;
};

/// The matmul primitives of a process, by shape.
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
  std::vector<Handles> handles; ///< indexed by MatmulPrimitive::index
  std::vector<char> scratch;
};

/// Returns whether oneDNN computes matmuls of the dtype natively on this machine. Returns false for
/// bf16 if the machine has no bf16 instructions; oneDNN would emulate them.
bool hasMatmuls(Dtype dtype);
/// Returns oneDNN's bf16 for BF16, and f32 for every other dtype.
dnnl::memory::data_type toDnnl(Dtype dtype);

/// Limits OpenMP, which oneDNN may use, to one thread. The destructor restores the previous limit,
/// because the calling thread may belong to a host program that uses OpenMP itself.
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
