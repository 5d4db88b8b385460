// oneDNN convolutions on one thread, in the layouts that they are fast in.
#ifndef PSRT_DEVICE_CPU_CONVOLUTION_H
#define PSRT_DEVICE_CPU_CONVOLUTION_H

#include "runtime/core/Program.h"
#include <array>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>

namespace psrt {

/// x, w and y of one convolution over a number of images; one of them is computed from the others.
/// oneDNN chooses their layouts, so each is reordered from or to the dense one where they
/// differ. Any number of threads may run it, each with handles and scratch memory of its own.
class ConvolutionPrimitive {
public:
  /// Of the three: f32, or bf16 where hasMatmuls() of it. By ConvolutionOp::X, W, Y.
  using Dtypes = std::array<Dtype, 3>;
  /// Null where oneDNN has none (a last window that ends more than a stride before the end of x).
  static std::unique_ptr<ConvolutionPrimitive>
  make(const dnnl::engine &engine, const ConvolutionOp &op, const Dtypes &dtypes, int64_t images);

  /// One thread's memory objects.
  struct Handles {
    dnnl::stream stream;
    std::array<dnnl::memory, 3> dense, own; ///< by ConvolutionOp::X, W, Y
    dnnl::memory scratch;
  };
  Handles makeHandles() const;
  /// 64-byte aligned memory that run() needs.
  size_t getScratchBytes() const { return scratchBytes; }
  /// `tensors`: dense x, w and y.
  void run(Handles &handles, const std::array<void *, 3> &tensors, char *scratch) const;

private:
  ConvolutionPrimitive(const dnnl::engine &engine, int result) : engine(engine), result(result) {}
  void chooseLayouts();

  dnnl::engine engine;
  int result;
  dnnl::primitive primitive;
  std::array<int, 3> arguments{};
  std::array<dnnl::memory::desc, 3> dense, own;
  std::array<dnnl::primitive, 3> reorders;
  std::array<bool, 3> isReordered{};
  std::array<size_t, 3> offsets{};
  dnnl::memory::desc scratch;
  size_t scratchOffset = 0, scratchBytes = 0;
};

} // namespace psrt

#endif
