// Runs kernels that the compiler generated, with one launch each.
#include "runtime/core/Status.h"
#include "runtime/device/cuda/CudaDevice.h"

namespace psrt::cuda {
namespace {

constexpr size_t kMaxArguments = 512;

struct PreparedKernel : Prepared {
  CUfunction function = nullptr;
  const char *name = nullptr;
  unsigned grid = 0, block = 0;
};

/// Launches the kernel. Its parameters are the addresses of the buffers, then the address of the
/// scalars.
void runKernel(const Bound &bound) {
  const auto &p = *static_cast<const PreparedKernel *>(static_cast<Prepared *>(bound.prepared));
  CudaRank &rank = CudaRank::of(bound);
  void *parameters[kMaxArguments + 1];
  size_t count = bound.instruction->buffers.size();
  for (size_t i = 0; i < count; ++i)
    parameters[i] = const_cast<void **>(&bound.buffers[i]);
  parameters[count] = const_cast<const int64_t **>(&bound.scalars);
  rank.announce(bound, p.name);
  rank.getGpu().check(rank.getDriver().launchKernel(p.function, p.grid, 1, 1, p.block, 1, 1, 0,
                                                    rank.getStream()->get(), parameters, nullptr),
                      p.name);
}

} // namespace

void bindKernel(CudaRank &rank, const KernelOp &op, Bound &bound) {
  auto p = std::make_unique<PreparedKernel>();
  if (op.kernel < 0 || size_t(op.kernel) >= rank.getProgram().kernels.size())
    PSRT_FAIL(BadInput, "the program calls kernel %d, but has %zu kernels", op.kernel,
              rank.getProgram().kernels.size());
  p->name = rank.getProgram().kernels[op.kernel].c_str();
  if (bound.instruction->buffers.size() > kMaxArguments)
    PSRT_FAIL(BadInput, "kernel \"%s\" has %zu arguments; at most %zu are supported on cuda",
              p->name, bound.instruction->buffers.size(), kMaxArguments);
  if (op.grid < 1 || op.block < 1)
    PSRT_FAIL(BadInput, "the program has no grid for kernel \"%s\"; compile the model again",
              p->name);
  p->function = rank.findKernel(op.kernel);
  p->grid = unsigned(op.grid);
  p->block = unsigned(op.block);
  bound.run = runKernel;
  bound.prepared = static_cast<Prepared *>(rank.keep(std::move(p)));
}

} // namespace psrt::cuda
