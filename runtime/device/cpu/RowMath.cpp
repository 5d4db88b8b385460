// Implements the row functions. This file is compiled once per instruction set. Each time, it
// defines a table of functions, such as rowMath_avx2, whose suffix is PSRT_ISA. The file must not
// include standard headers with inline functions: these functions would be compiled for the same
// instruction set, which the machine may lack.
#include "runtime/device/cpu/RowMath.h"

#define PSRT_CONCAT2(a, b) a##b
#define PSRT_CONCAT(a, b) PSRT_CONCAT2(a, b)

namespace psrt {
namespace {

typedef float Lanes __attribute__((vector_size(64)));
typedef int32_t IntLanes __attribute__((vector_size(64)));
constexpr int64_t width = 16;

inline __attribute__((always_inline)) Lanes load(const float *p) {
  Lanes v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
inline __attribute__((always_inline)) void store(float *p, Lanes v) {
  __builtin_memcpy(p, &v, sizeof(v));
}
inline __attribute__((always_inline)) Lanes splat(float x) {
  return Lanes{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

/// Computes exp by range reduction and a polynomial of degree 6. The error is below 1.5 ulp.
/// Arguments below -87.3 give 0.
inline __attribute__((always_inline)) Lanes exponential(Lanes x) {
  const Lanes magic = splat(12582912.0f);
  Lanes low = splat(-87.3f), high = splat(88.7f);
  IntLanes underflow = x < low;
  Lanes y = x < low ? low : x;
  y = y > high ? high : y;
  Lanes shifted = y * splat(1.44269504088896341f) + magic;
  Lanes n = shifted - magic;
  Lanes r = y - n * splat(0.693359375f);
  r = r + n * splat(2.12194440e-4f);
  Lanes p = splat(1.3981999507e-3f);
  p = p * r + splat(8.3334519073e-3f);
  p = p * r + splat(4.1665795894e-2f);
  p = p * r + splat(1.6666665459e-1f);
  p = p * r + splat(5.0000001201e-1f);
  p = p * r * r + r + splat(1.0f);
  IntLanes exponent = __builtin_convertvector(n, IntLanes);
  IntLanes half = exponent >> 1, rest = exponent - half;
  Lanes scale1 = (Lanes)((half + 127) << 23), scale2 = (Lanes)((rest + 127) << 23);
  p = p * scale1 * scale2;
  return underflow ? splat(0.0f) : p;
}

/// Adds 64 partial sums in a fixed tree order.
inline __attribute__((always_inline)) float total(Lanes a, Lanes b, Lanes c, Lanes d) {
  Lanes s = (a + b) + (c + d);
  float x[16];
  __builtin_memcpy(x, &s, sizeof(s));
  for (int step = 8; step > 0; step /= 2)
    for (int i = 0; i < step; ++i)
      x[i] += x[i + step];
  return x[0];
}

/// Hides the columns outside of [lo, hi).
void hide(float *row, int64_t lo, int64_t hi, int64_t padded) {
  for (int64_t j = 0; j < lo; ++j)
    row[j] = hiddenScore;
  for (int64_t j = hi; j < padded; ++j)
    row[j] = hiddenScore;
}

void softmax(float *row, int64_t lo, int64_t hi, int64_t padded, float scale, float *max,
             float *sum) {
  hide(row, lo, hi, padded);
  // Hidden columns are not scaled, because `scale` may be negative or large.
  Lanes top = splat(hiddenScore), hidden = splat(hiddenScore * 0.5f);
  for (int64_t j = 0; j < padded; j += width) {
    Lanes x = load(row + j);
    x = x <= hidden ? splat(hiddenScore) : x * splat(scale);
    store(row + j, x);
    top = x > top ? x : top;
  }
  float m = hiddenScore, x[16];
  __builtin_memcpy(x, &top, sizeof(top));
  for (int i = 0; i < 16; ++i)
    m = x[i] > m ? x[i] : m;
  *max = m;
  if (m <= hiddenScore * 0.5f) {
    *sum = 0;
    for (int64_t j = 0; j < padded; ++j)
      row[j] = 0;
    return;
  }
  Lanes acc[4] = {splat(0), splat(0), splat(0), splat(0)};
  for (int64_t j = 0; j < padded; j += width) {
    Lanes e = exponential(load(row + j) - splat(m));
    store(row + j, e);
    acc[(j / width) & 3] += e;
  }
  float s = total(acc[0], acc[1], acc[2], acc[3]);
  *sum = s;
  Lanes inverse = splat(1.0f / s);
  for (int64_t j = 0; j < padded; j += width)
    store(row + j, load(row + j) * inverse);
}

/// Divides a row by its sum.
void normalize(float *row, int64_t padded) {
  Lanes acc[4] = {splat(0), splat(0), splat(0), splat(0)};
  for (int64_t j = 0; j < padded; j += width)
    acc[(j / width) & 3] += load(row + j);
  float sum = total(acc[0], acc[1], acc[2], acc[3]);
  Lanes inverse = splat(sum > 0 ? 1.0f / sum : 0);
  for (int64_t j = 0; j < padded; j += width)
    store(row + j, load(row + j) * inverse);
}

void probabilities(float *row, int64_t lo, int64_t hi, int64_t padded, float scale, float lse) {
  hide(row, lo, hi, padded);
  Lanes hidden = splat(hiddenScore * 0.5f);
  if (!(lse > hiddenScore)) { // a row without visible columns
    for (int64_t j = 0; j < padded; ++j)
      row[j] = 0;
    return;
  }
  for (int64_t j = 0; j < padded; j += width) {
    Lanes x = load(row + j);
    Lanes e = exponential(x * splat(scale) - splat(lse));
    store(row + j, x <= hidden ? splat(0.0f) : e);
  }
  if (__builtin_fabsf(lse) > largeLse)
    normalize(row, padded);
}

void gradient(const float *p, float *dp, int64_t padded, float delta, float scale) {
  for (int64_t j = 0; j < padded; j += width) {
    Lanes x = load(p + j);
    Lanes g = x * (load(dp + j) - splat(delta)) * splat(scale);
    store(dp + j, x == splat(0.0f) ? splat(0.0f) : g);
  }
}

void multiply(float *x, const float *y, int64_t padded) {
  for (int64_t j = 0; j < padded; j += width)
    store(x + j, load(x + j) * load(y + j));
}

float dot(const float *x, const float *y, int64_t n) {
  Lanes acc[4] = {splat(0), splat(0), splat(0), splat(0)};
  int64_t j = 0;
  for (; j + width <= n; j += width)
    acc[(j / width) & 3] += load(x + j) * load(y + j);
  float rest = 0;
  for (; j < n; ++j)
    rest += x[j] * y[j];
  return total(acc[0], acc[1], acc[2], acc[3]) + rest;
}

void dropout(float *keep, int64_t n, int64_t padded, float p, uint64_t key, uint64_t counter) {
  float kept = 1.0f / (1.0f - p);
  for (int64_t j = 0; j < n; ++j) {
    uint64_t c = counter + uint64_t(j);
    uint32_t c0 = uint32_t(c), c1 = uint32_t(c >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
#pragma clang loop unroll(full)
    for (int round = 0; round < 10; ++round) {
      uint64_t p0 = uint64_t(0xD2511F53u) * c0, p1 = uint64_t(0xCD9E8D57u) * c2;
      c0 = uint32_t(p1 >> 32) ^ c1 ^ k0;
      c1 = uint32_t(p1);
      c2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
      c3 = uint32_t(p0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    keep[j] = float(c0 >> 8) * 0x1p-24f >= p ? kept : 0.0f;
  }
  for (int64_t j = n; j < padded; ++j)
    keep[j] = 0;
}

void add(float *x, const float *y, int64_t n) {
  for (int64_t j = 0; j < n; ++j)
    x[j] += y[j];
}

//===--- 16-bit floats ----------------------------------------------------===//

typedef uint32_t BitLanes __attribute__((vector_size(64)));
typedef uint16_t NarrowLanes __attribute__((vector_size(32)));

inline __attribute__((always_inline)) Lanes fromBfloat16(BitLanes bits) {
  return (Lanes)(bits << 16);
}

inline __attribute__((always_inline)) BitLanes toBfloat16(Lanes x) {
  BitLanes bits = (BitLanes)x, rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return x != x ? (bits >> 16 | 0x40) : rounded; // rounding up a NaN could change its sign bit
}

inline __attribute__((always_inline)) Lanes fromHalf(BitLanes bits) {
  BitLanes rest = bits & 0x7fff, normal = (rest << 13) + 0x38000000;
  BitLanes small = (BitLanes)(__builtin_convertvector((IntLanes)rest, Lanes) * splat(0x1p-24f));
  BitLanes number = rest < 0x400 ? small : normal;
  number = rest >= 0x7c00 ? normal + 0x38000000 : number; // infinity or NaN
  return (Lanes)(number | (bits & 0x8000) << 16);
}

inline __attribute__((always_inline)) BitLanes toHalf(Lanes x) {
  BitLanes bits = (BitLanes)x, rest = bits & 0x7fffffff;
  BitLanes normal = (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13;
  // Below 2^-14, f16 numbers are multiples of 2^-24, and so are f32 numbers from 0.5 to 1. Adding
  // 0.5 in f32 thus rounds to such a multiple.
  BitLanes small = (BitLanes)((Lanes)rest + splat(0.5f)) - 0x3f000000;
  BitLanes number = rest < 0x38800000 ? small : normal, infinite = BitLanes{} + 0x7c00;
  number = rest >= 0x477ff000 ? infinite : number; // 65520 and larger round to infinity
  number = rest > 0x7f800000 ? infinite + 0x200 : number;
  return number | (bits >> 16 & 0x8000);
}

template <Lanes convert(BitLanes)> void widen(const uint16_t *from, float *to, int64_t n) {
  NarrowLanes x = {};
  int64_t j = 0;
  for (; j + width <= n; j += width) {
    __builtin_memcpy(&x, from + j, sizeof(x));
    store(to + j, convert(__builtin_convertvector(x, BitLanes)));
  }
  if (j == n)
    return;
  __builtin_memcpy(&x, from + j, (n - j) * sizeof(uint16_t));
  Lanes last = convert(__builtin_convertvector(x, BitLanes));
  __builtin_memcpy(to + j, &last, (n - j) * sizeof(float));
}

template <BitLanes convert(Lanes)> void narrow(const float *from, uint16_t *to, int64_t n) {
  int64_t j = 0;
  for (; j + width <= n; j += width) {
    NarrowLanes x = __builtin_convertvector(convert(load(from + j)), NarrowLanes);
    __builtin_memcpy(to + j, &x, sizeof(x));
  }
  if (j == n)
    return;
  Lanes last = {};
  __builtin_memcpy(&last, from + j, (n - j) * sizeof(float));
  NarrowLanes x = __builtin_convertvector(convert(last), NarrowLanes);
  __builtin_memcpy(to + j, &x, (n - j) * sizeof(uint16_t));
}

} // namespace

extern const RowMath PSRT_CONCAT(rowMath_, PSRT_ISA);
const RowMath PSRT_CONCAT(rowMath_, PSRT_ISA) = {
    softmax, probabilities,       gradient,        multiply,           dot,           dropout,
    add,     widen<fromBfloat16>, widen<fromHalf>, narrow<toBfloat16>, narrow<toHalf>};

} // namespace psrt
