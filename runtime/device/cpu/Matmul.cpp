// Creates and runs oneDNN matmul primitives.
#include "runtime/device/cpu/Matmul.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <dlfcn.h>

namespace psrt {

using dnnl::memory;

namespace {
/// Functions of the OpenMP runtime that libdnnl loaded; null if libdnnl was built without OpenMP.
struct OpenMP {
  int (*count)() = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  void (*set)(int) = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  static const OpenMP &get() {
    static const OpenMP functions;
    return functions;
  }
};
} // namespace

OneOpenMPThread::OneOpenMPThread() {
  const OpenMP &openMP = OpenMP::get();
  if (!openMP.count || !openMP.set)
    return;
  before = openMP.count();
  if (before != 1)
    openMP.set(1);
}

OneOpenMPThread::~OneOpenMPThread() {
  if (before != 1)
    OpenMP::get().set(before);
}

bool hasMatmuls(Dtype dtype) {
  constexpr auto kBfloat16 = unsigned(dnnl::cpu_isa::avx512_core_bf16);
  if (dtype == Dtype::BF16)
    return (unsigned(dnnl::get_effective_cpu_isa()) & kBfloat16) == kBfloat16;
  return dtype == Dtype::F32;
}

memory::data_type toDnnl(Dtype dtype) {
  return dtype == Dtype::BF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

/// Describes a matrix. The stride of a single row can be any number, because no row follows it.
/// oneDNN computes a matrix whose stride of rows is below its number of columns with a slow
/// reference kernel, so such a row gets the stride of a dense matrix. Example: the query of one
/// token.
static memory::desc describe(Dtype dtype, int64_t rows, int64_t columns,
                             std::array<int64_t, 2> strides) {
  if (rows == 1)
    strides[0] = std::max(strides[0], columns * strides[1]);
  return {{rows, columns}, toDnnl(dtype), memory::dims{strides[0], strides[1]}};
}

const MatmulPrimitive *MatmulCache::get(const MatmulShape &shape) {
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<MatmulPrimitive> &slot = primitives[shape];
  if (slot)
    return slot.get();
  OneOpenMPThread alone;
  auto result = std::make_unique<MatmulPrimitive>();
  result->index = int(primitives.size()) - 1;
  result->lhs = describe(shape.dtype, shape.m, shape.k, shape.lhs);
  result->rhs = describe(shape.dtype, shape.k, shape.n, shape.rhs);
  result->out = describe(shape.outDtype, shape.m, shape.n, shape.out);
  if (shape.bias)
    result->bias = describe(Dtype::F32, 1, shape.n, {shape.n, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate) {
    dnnl::post_ops post;
    post.append_sum(1.0f);
    attributes.set_post_ops(post);
  }
  try {
    auto matmul = shape.bias
                      ? dnnl::matmul::desc(result->lhs, result->rhs, result->bias, result->out)
                      : dnnl::matmul::desc(result->lhs, result->rhs, result->out);
    dnnl::matmul::primitive_desc description(matmul, attributes, engine);
    result->scratch = description.scratchpad_desc();
    result->primitive = dnnl::matmul(description);
  } catch (const dnnl::error &error) {
    primitives.erase(shape);
    PSRT_FAIL(
        Failed,
        "oneDNN has no matmul of %s with m, n, k = %lld, %lld, %lld and the strides (%lld, %lld) "
        "of lhs, (%lld, %lld) of rhs and (%lld, %lld) of out: %s",
        dtypeName(shape.dtype), (long long)shape.m, (long long)shape.n, (long long)shape.k,
        (long long)shape.lhs[0], (long long)shape.lhs[1], (long long)shape.rhs[0],
        (long long)shape.rhs[1], (long long)shape.out[0], (long long)shape.out[1], error.what());
  }
  slot = std::move(result);
  return slot.get();
}

MatmulRunner::MatmulRunner(MatmulCache &cache) : cache(cache), stream(cache.getEngine()) {}

void MatmulRunner::prepare(const MatmulPrimitive *primitive) {
  if (handles.size() <= size_t(primitive->index))
    handles.resize(primitive->index + 1);
  Handles &h = handles[primitive->index];
  if (h.ready)
    return;
  auto make = [&](const memory::desc &desc) { return memory(desc, cache.getEngine(), nullptr); };
  h.lhs = make(primitive->lhs);
  h.rhs = make(primitive->rhs);
  h.out = make(primitive->out);
  if (!primitive->bias.is_zero())
    h.bias = make(primitive->bias);
  h.scratch = make(primitive->scratch);
  if (scratch.size() < primitive->scratch.get_size() + 64)
    scratch.resize(primitive->scratch.get_size() + 64);
  h.ready = true;
}

void MatmulRunner::run(const MatmulPrimitive *primitive, const void *lhs, const void *rhs,
                       void *out, const float *bias) {
  OneOpenMPThread alone;
  Handles &h = handles[primitive->index];
  char *aligned = scratch.data() + (-reinterpret_cast<uintptr_t>(scratch.data()) & 63);
  dnnl_memory_set_data_handle(h.lhs.get(), const_cast<void *>(lhs));
  dnnl_memory_set_data_handle(h.rhs.get(), const_cast<void *>(rhs));
  dnnl_memory_set_data_handle(h.out.get(), out);
  dnnl_memory_set_data_handle(h.scratch.get(), aligned);
  dnnl_exec_arg_t args[5] = {{DNNL_ARG_SRC, h.lhs.get()},
                             {DNNL_ARG_WEIGHTS, h.rhs.get()},
                             {DNNL_ARG_DST, h.out.get()},
                             {DNNL_ARG_SCRATCHPAD, h.scratch.get()},
                             {DNNL_ARG_BIAS, nullptr}};
  int count = 4;
  if (bias) {
    dnnl_memory_set_data_handle(h.bias.get(), const_cast<float *>(bias));
    args[count++].memory = h.bias.get();
  }
  dnnl_status_t status =
      dnnl_primitive_execute(primitive->primitive.get(), stream.get(), count, args);
  if (status != dnnl_success)
    PSRT_FAIL(Failed, "oneDNN matmul failed with status %d", int(status));
}

} // namespace psrt
