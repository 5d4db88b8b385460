// Runs oneDNN convolutions on one thread, in oneDNN's preferred layouts.
#ifndef PSRT_DEVICE_CPU_CONVOLUTION_H
#define PSRT_DEVICE_CPU_CONVOLUTION_H

#include "runtime/core/Program.h"
#include <array>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>

namespace psrt {

/// A convolution with input x, weight w and output y, over a fixed number of images. Computes one
/// of the three tensors from the other two. oneDNN chooses the layout of each tensor. If the layout
/// is not dense, run() reorders the tensor. Several threads may run a primitive at once, each with
/// its own handles and scratch memory.
class ConvolutionPrimitive {
public:
  /// The dtypes of x, w and y. Each is f32, or bf16 if the machine has bf16 matmuls (hasMatmuls).
  using Dtypes = std::array<Dtype, 3>;
  /// Creates a primitive. Returns null if oneDNN does not support the convolution. Example of an
  /// unsupported convolution: the last window ends more than a stride before the end of x.
  static std::unique_ptr<ConvolutionPrimitive>
  make(const dnnl::engine &engine, const ConvolutionOp &op, const Dtypes &dtypes, int64_t images);

  /// The memory objects of one thread.
  struct Handles {
    dnnl::stream stream;
    std::array<dnnl::memory, 3> dense; ///< indexed by ConvolutionOp::X, W, Y
    std::array<dnnl::memory, 3> own;   ///< the same tensors in the layouts that oneDNN chose
    dnnl::memory scratch;
  };
  Handles makeHandles() const;
  /// Returns the bytes of 64-byte aligned memory that run() needs.
  size_t getScratchBytes() const { return scratchBytes; }
  /// Runs the convolution on the dense tensors x, w and y. `scratch` has getScratchBytes() bytes.
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
