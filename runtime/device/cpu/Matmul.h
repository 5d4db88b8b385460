// oneDNN matmul primitives, made once per shape and shared by all ranks; each thread has its own
// handles.
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

/// out[m, n] = lhs[m, k] rhs[k, n] (+ bias[n]) (+ out) on one thread; the sums are of f32. Strides:
/// row, column.
struct MatmulShape {
  int64_t m = 0, n = 0, k = 0;
  std::array<int64_t, 2> lhs{}, rhs{}, out{};
  bool accumulate = false, bias = false;
  Dtype dtype = Dtype::F32, outDtype = Dtype::F32; ///< of lhs and rhs; of out. bias is of f32
  auto operator<=>(const MatmulShape &) const = default;
};

/// A primitive that may run on any number of threads at once (its scratch memory is the caller's).
struct MatmulPrimitive {
  int index = 0;
  dnnl::matmul primitive;
  dnnl::memory::desc lhs, rhs, out, bias, scratch;
};

/// The primitives of a process.
class MatmulCache {
public:
  MatmulCache() : engine(dnnl::engine::kind::cpu, 0) {}
  /// Makes or finds a primitive; any thread may call it.
  const MatmulPrimitive *get(const MatmulShape &shape);
  const dnnl::engine &getEngine() const { return engine; }

private:
  dnnl::engine engine;
  std::mutex mutex;
  std::map<MatmulShape, std::unique_ptr<MatmulPrimitive>> primitives;
};

/// One thread's handles: executing allocates nothing of ours.
class MatmulRunner {
public:
  explicit MatmulRunner(MatmulCache &cache);
  /// Makes the handles of a primitive; called before the first run of it.
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

/// Whether oneDNN computes matmuls of operands of that dtype here, as fast as the machine can.
/// (It emulates bf16 where the machine has no instruction for it.)
bool hasMatmuls(Dtype dtype);
/// The dtype as oneDNN calls it: f32 or bf16.
dnnl::memory::data_type toDnnl(Dtype dtype);

/// While it lives, the OpenMP runtime that oneDNN uses runs on the calling thread alone. That
/// thread may be one of a host that uses OpenMP itself, so that it has as many as before
/// afterwards.
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
