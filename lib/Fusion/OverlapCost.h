// When it pays to cut a matmul and its collective into chunks of which one runs beside the other.
#ifndef PARASHARD_LIB_FUSION_OVERLAPCOST_H
#define PARASHARD_LIB_FUSION_OVERLAPCOST_H

#include <cstdint>
#include <string_view>

namespace parashard::fusion {

/// What the cost of matmuls and collectives is reckoned by, of one rank.
struct MachineFigures {
  double flops = 0;       ///< of contractions a second, in f32
  double narrowFlops = 0; ///< the same of 16-bit types
  double memory = 0;      ///< bytes a second of its own memory
  double link = 0;        ///< bytes a second between ranks of a tensor axis, in each direction
  double latency = 0;     ///< seconds that each collective takes besides
  double halfRows = 0;    ///< rows of a matmul at which it is half as fast as a large one
  /// The share of a collective that takes nothing from a matmul beside it: 0 where the cores that
  /// multiply also move and add up what is communicated.
  double beside = 0;
  /// Bytes a second between its own memory and the host's, in each direction.
  double host = 0;
};

/// Of the targets that ps-compile has: "cpu:native", "cuda:sm_90".
MachineFigures findMachine(std::string_view target);

/// A matmul, and the collective that is cut with it.
struct OverlapCase {
  double matmul = 0;     ///< seconds, whole
  int64_t rows = 1;       ///< of the matmul
  double transfer = 0;    ///< seconds of the collective, whole, without its latency
  double independent = 0; ///< seconds of what runs beside the collective in any case
};

/// Seconds of both in `count` chunks, less what runs beside them in any case.
double getOverlapTime(const MachineFigures &machine, const OverlapCase &what, int64_t count);
/// The number of chunks, a divisor of `places`, that takes least; 1 where nothing is won by
/// cutting, or less than a hundredth.
int64_t chooseChunks(const MachineFigures &machine, const OverlapCase &what, int64_t places);

} // namespace parashard::fusion

#endif
