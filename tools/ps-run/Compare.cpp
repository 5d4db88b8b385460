// Compares the tensors of two runs by name.
#include "tools/ps-run/Compare.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <limits>

using namespace parashard::evaluate;

namespace parashard {
namespace {

template <typename... Args> llvm::Error fail(const char *format, Args &&...args) {
  return llvm::createStringError(llvm::formatv(format, std::forward<Args>(args)...).str());
}

std::string print(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// Returns the absolute difference of two elements: 0 for equal infinities and for two NaNs.
/// Otherwise, returns infinity if an element is not finite.
double getDifference(const ps::Tensor &found, const ps::Tensor &expected, int64_t i) {
  if (!expected.isFloat())
    return std::abs(double(found.getInt(i)) - double(expected.getInt(i)));
  double a = found.get(i), b = expected.get(i);
  if (a == b || (std::isnan(a) && std::isnan(b)))
    return 0;
  double difference = std::abs(a - b);
  return std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
}

/// Returns the largest difference of two tensors of one type, relative to max(0.001, the largest
/// finite magnitude in `expected`).
double getShare(const ps::Tensor &found, const ps::Tensor &expected) {
  constexpr double kMinScale = 1e-3;
  double scale = kMinScale, largest = 0;
  for (int64_t i = 0; i < expected.size(); ++i) {
    if (std::isfinite(expected.get(i)))
      scale = std::max(scale, std::abs(expected.get(i)));
    largest = std::max(largest, getDifference(found, expected, i));
  }
  return largest / scale;
}

} // namespace

llvm::Expected<Agreement> compareTensors(const NamedTensors &found, const NamedTensors &expected,
                                         double tolerance) {
  for (const auto &[name, tensor] : found)
    if (!expected.contains(name))
      return fail("the file has no tensor {0}", name);
  Agreement agreement;
  for (const auto &[name, tensor] : expected) {
    auto it = found.find(name);
    if (it == found.end())
      return fail("the module has no result or variable {0}", name);
    if (it->second.getType() != tensor.getType())
      return fail("{0} has type {1}, but {2} in the file", name, print(it->second.getType()),
                  print(tensor.getType()));
    ++agreement.tensors;
    double share = getShare(it->second, tensor);
    if (share > agreement.largest) {
      agreement.largest = share;
      agreement.tensor = name;
    }
  }
  if (std::isinf(agreement.largest))
    return fail("{0} has a NaN or infinity that differs between the two runs", agreement.tensor);
  if (agreement.largest > tolerance)
    return fail("{0} differs by {1:e1} relative to max(0.001, its largest absolute element); "
                "--tolerance allows {2:e1}",
                agreement.tensor, agreement.largest, tolerance);
  return agreement;
}

} // namespace parashard
