// Converts 16-bit floats for generated code on processors without conversion instructions. The
// functions are part of compiler-rt, but some systems do not provide all of them. They form a
// library of their own: a program that is a shared object is linked with this library, but not with
// the rest of the runtime.
#include "runtime/core/Element.h"

namespace {

/// Rounds to f32 with an odd last bit if the result is inexact. A second rounding to 16 bits then
/// gives the same result as a single rounding. Example: 1 + 2^-11 + 2^-40 becomes 1 + 2^-11 +
/// 2^-23.
float roundToOdd(double value) {
  float nearest = float(value);
  if (double(nearest) == value || value != value)
    return nearest;
  uint32_t bits = psrt::castBits<uint32_t>(nearest);
  if (std::fabs(double(nearest)) > std::fabs(value))
    --bits;
  return psrt::castBits<float>(bits | 1);
}

/// Converts like psrt::toHalf, but without the math library, which is not linked into a shared
/// object. Values below 2^-14 become multiples of 2^-24. Adding 0.5 performs this rounding, since
/// f32 numbers from 0.5 to 1 are multiples of 2^-24.
_Float16 toHalf(float value) {
  uint32_t bits = psrt::castBits<uint32_t>(value), rest = bits & 0x7fffffff, half;
  if (rest > 0x7f800000)
    half = 0x7e00;
  else if (rest >= 0x477ff000)
    half = 0x7c00;
  else if (rest < 0x38800000)
    half = psrt::castBits<uint32_t>(std::fabs(value) + 0.5f) - 0x3f000000;
  else
    half = (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13;
  return psrt::castBits<_Float16>(uint16_t((bits >> 16 & 0x8000) | half));
}

} // namespace

extern "C" {

// A cast to or from _Float16 or __bf16 would call these functions again. Instead, castBits
// reinterprets the 16 bits.
_Float16 __truncsfhf2(float value) { return toHalf(value); }
_Float16 __truncdfhf2(double value) { return toHalf(roundToOdd(value)); }
float __extendhfsf2(_Float16 value) { return psrt::fromHalf(psrt::castBits<uint16_t>(value)); }
double __extendhfdf2(_Float16 value) { return psrt::fromHalf(psrt::castBits<uint16_t>(value)); }
__bf16 __truncsfbf2(float value) { return psrt::castBits<__bf16>(psrt::toBfloat16(value)); }
__bf16 __truncdfbf2(double value) {
  return psrt::castBits<__bf16>(psrt::toBfloat16(roundToOdd(value)));
}
float __extendbfsf2(__bf16 value) { return psrt::fromBfloat16(psrt::castBits<uint16_t>(value)); }

} // extern "C"
