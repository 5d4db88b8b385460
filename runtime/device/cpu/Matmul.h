// oneDNN matmul primitives, made once per shape and shared by all ranks; each thread has its own
// handles.
#ifndef PSRT_DEVICE_CPU_MATMUL_H
#define PSRT_DEVICE_CPU_MATMUL_H

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace psrt {

/// out[m, n] = lhs[m, k] rhs[k, n] (+ bias[n]) (+ out), f32, on one thread. Strides: row, column.
struct MatmulShape {
  int64_t m = 0, n = 0, k = 0;
  std::array<int64_t, 2> lhs{}, rhs{}, out{};
  bool accumulate = false, bias = false;
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
  void run(const MatmulPrimitive *primitive, const float *lhs, const float *rhs, float *out,
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

/// Tells the OpenMP runtime that oneDNN uses to run on the calling thread alone.
void useOneOpenMPThread();

} // namespace psrt

#endif
