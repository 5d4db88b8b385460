// Measures the rate that oneDNN reaches on the contractions of a decoder's training step, on
// several threads.
//
//   contraction-rate [bf16] THREADS COUNT ROWS IN OUT [COUNT ROWS IN OUT]...
//
// Each group COUNT ROWS IN OUT describes COUNT linear layers with weights OUT x IN on ROWS tokens.
// For each layer, runs forward and the gradients of input and weight, in f32 or bf16. In bf16, the
// weight's gradient is f32. Each thread computes an equal part of the rows of each result, as in a
// runtime with its own threads. Prints two rates in GF/s, each the best of several rounds. The
// first is the rate over all contractions. The second is the f32 peak, measured with multiply-adds
// on registers only.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.hpp>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

/// Limits oneDNN to one OpenMP thread, because each thread of this program calls oneDNN separately.
void useOneThread() {
  if (void *set = dlsym(RTLD_DEFAULT, "omp_set_num_threads"))
    reinterpret_cast<void (*)(int)>(set)(1);
}

using Dtype = dnnl::memory::data_type;
using Clock = std::chrono::steady_clock;

/// One matmul of the step: out [m, n] = lhs [m, k] rhs [k, n]. Either operand may be transposed in
/// memory.
struct Matmul {
  int64_t m, n, k;
  bool lhsTransposed, rhsTransposed;
  Dtype dtype, outDtype;
};

/// A part of a matmul that one thread computes: rows [lo, hi) of the result.
struct Part {
  dnnl::matmul primitive;
  std::unordered_map<int, dnnl::memory> arguments;
};

dnnl::memory::desc describe(Dtype dtype, int64_t rows, int64_t columns, int64_t stride,
                            bool transposed) {
  dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {{rows, columns}, dtype, strides};
}

Part makePart(const dnnl::engine &engine, const Matmul &p, int64_t lo, int64_t hi, void *lhs,
              void *rhs, void *out) {
  int64_t rows = hi - lo;
  auto lhsDesc = describe(p.dtype, rows, p.k, p.lhsTransposed ? p.m : p.k, p.lhsTransposed);
  auto rhsDesc = describe(p.dtype, p.k, p.n, p.rhsTransposed ? p.k : p.n, p.rhsTransposed);
  auto outDesc = describe(p.outDtype, rows, p.n, p.n, false);
  dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(lhsDesc, rhsDesc, outDesc), engine);
  auto at = [](void *data, Dtype dtype, int64_t index) {
    return static_cast<char *>(data) + index * dnnl::memory::data_type_size(dtype);
  };
  void *lhsPart = at(lhs, p.dtype, lo * (p.lhsTransposed ? 1 : p.k));
  return {dnnl::matmul(desc),
          {{DNNL_ARG_SRC, dnnl::memory(lhsDesc, engine, lhsPart)},
           {DNNL_ARG_WEIGHTS, dnnl::memory(rhsDesc, engine, rhs)},
           {DNNL_ARG_DST, dnnl::memory(outDesc, engine, at(out, p.outDtype, lo * p.n))}}};
}

/// Returns the seconds that one run of all matmuls takes. Each matmul is split over `threads`
/// threads, which synchronize after the matmul.
double runOnce(const dnnl::engine &engine, std::vector<std::vector<std::vector<Part>>> &work,
               int threads) {
  std::atomic<int> arrived{0};
  auto body = [&](int thread) {
    useOneThread();
    dnnl::stream stream(engine);
    int round = 0;
    for (auto &matmul : work) {
      for (Part &part : matmul[thread])
        part.primitive.execute(stream, part.arguments);
      arrived.fetch_add(1);
      ++round;
      while (arrived.load() < round * threads)
        ;
    }
  };
  auto start = Clock::now();
  std::vector<std::thread> workers;
  for (int thread = 1; thread < threads; ++thread)
    workers.emplace_back(body, thread);
  body(0);
  for (std::thread &worker : workers)
    worker.join();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
typedef float Lanes __attribute__((vector_size(4 * kLanes)));

/// Runs `count` rounds of independent multiply-adds and returns their flops. Adds the result to
/// `sink`, so that the loop is not optimized away.
double multiplyAdd(int64_t count, float &sink) {
  constexpr int kChains = 12; // more than latency x FMA units, at most the number of registers
  Lanes sums[kChains] = {};
  Lanes a = Lanes{} + 1e-3f, b = Lanes{} + 0.5f;
  for (int64_t i = 0; i < count; ++i)
#pragma unroll
    for (Lanes &sum : sums) {
      sum = sum * b + a;
      asm volatile("" : "+x"(sum));
    }
  for (Lanes sum : sums)
    sink += sum[0];
  return 2.0 * kLanes * kChains * count;
}

/// Returns the flops per second of all threads together, for multiply-adds only.
double measurePeak(int threads) {
  constexpr int64_t kRounds = 20'000'000;
  std::vector<double> flops(threads);
  std::vector<float> sinks(threads);
  auto start = Clock::now();
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&, t] { flops[t] = multiplyAdd(kRounds, sinks[t]); });
  for (std::thread &worker : workers)
    worker.join();
  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  double sum = 0;
  for (double f : flops)
    sum += f;
  return sum / seconds;
}

/// The matmuls of a step, and the number of threads that compute each of them.
struct Step {
  int threads = 0;
  std::vector<Matmul> matmuls;
};

/// Returns the positive number that a text contains, or 0 if the text contains anything else.
int64_t readNumber(const char *text) {
  int64_t value = 0;
  const char *end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end ? std::max<int64_t>(value, 0) : 0;
}

/// Reads the arguments of the program. Returns a step with 0 threads if they are wrong.
Step readStep(int argc, char **argv) {
  Dtype dtype = Dtype::f32;
  if (argc > 1 && std::strcmp(argv[1], "bf16") == 0) {
    dtype = Dtype::bf16;
    argc -= 1, argv += 1;
  }
  Step step;
  if (argc < 6 || (argc - 2) % 4 != 0)
    return step;
  for (int i = 2; i < argc; i += 4) {
    int64_t count = readNumber(argv[i]), rows = readNumber(argv[i + 1]),
            in = readNumber(argv[i + 2]), out = readNumber(argv[i + 3]);
    if (!count || !rows || !in || !out)
      return step;
    for (; count > 0; --count) {
      step.matmuls.push_back({rows, out, in, false, true, dtype, dtype});
      step.matmuls.push_back({rows, in, out, false, false, dtype, dtype});
      step.matmuls.push_back({out, in, rows, true, false, dtype, Dtype::f32});
    }
  }
  step.threads = static_cast<int>(std::min<int64_t>(readNumber(argv[1]), 1024));
  return step;
}

/// Measures and prints the two rates.
void measure(const Step &step) {
  useOneThread();
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  int64_t largest = 0;
  double flops = 0;
  for (const Matmul &p : step.matmuls) {
    largest = std::max({largest, p.m * p.k, p.k * p.n, p.m * p.n});
    flops += 2.0 * p.m * p.n * p.k;
  }
  std::vector<float> lhs(largest, 0.5f), rhs(largest, 0.25f), out(largest);
  std::vector<std::vector<std::vector<Part>>> work;
  for (const Matmul &p : step.matmuls) {
    auto &matmul = work.emplace_back(step.threads);
    for (int thread = 0; thread < step.threads; ++thread) {
      constexpr int64_t kChunk = 256;
      int64_t lo = p.m * thread / step.threads, end = p.m * (thread + 1) / step.threads;
      for (; lo < end; lo += kChunk)
        matmul[thread].push_back(makePart(engine, p, lo, std::min(lo + kChunk, end), lhs.data(),
                                          rhs.data(), out.data()));
    }
  }
  double best = 1e30, peak = 0;
  for (int round = 0; round < 8; ++round) {
    best = std::min(best, runOnce(engine, work, step.threads));
    peak = std::max(peak, measurePeak(step.threads));
  }
  std::printf("%.1f %.1f\n", flops / best * 1e-9, peak * 1e-9);
}

} // namespace

int main(int argc, char **argv) {
  try {
    if (Step step = readStep(argc, argv); step.threads > 0) {
      measure(step);
      return 0;
    }
  } catch (const std::exception &error) {
    std::fprintf(stderr, "contraction-rate: %s\n", error.what());
    return 1;
  }
  std::fprintf(stderr,
               "usage: contraction-rate [bf16] THREADS COUNT ROWS IN OUT [COUNT ROWS IN OUT]...\n");
  return 2;
}
