// Decides whether to split a matmul and its collective into chunks that overlap.
#ifndef PARASHARD_LIB_FUSION_OVERLAPCOST_H
#define PARASHARD_LIB_FUSION_OVERLAPCOST_H

#include <cstdint>
#include <string_view>

namespace parashard::fusion {

/// Rates of one rank that determine the cost of matmuls and collectives.
struct MachineFigures {
  double flops = 0;       ///< f32 contraction flops per second
  double narrowFlops = 0; ///< the same for 16-bit types
  double memory = 0;      ///< bytes per second of device memory
  double link = 0;        ///< bytes per second between ranks of a tensor axis, in each direction
  double latency = 0;     ///< additional seconds of each collective
  double halfRows = 0;    ///< rows at which a matmul has half the rate of a large one
  /// The share of a collective that does not slow down a concurrent matmul. 0 if the cores that
  /// multiply also move and add the transferred data.
  double overlap = 0;
  /// Bytes per second between device and host, in each direction.
  double host = 0;
};

/// Returns the rates of a target of ps-compile, such as "cpu:native" or "cuda:sm_90".
MachineFigures findMachine(std::string_view target);

/// A matmul and the collective that is split with it.
struct OverlapCase {
  double matmul = 0;      ///< seconds of the whole matmul
  int64_t rows = 1;       ///< rows of the matmul
  double transfer = 0;    ///< seconds of the whole collective, without latency
  double independent = 0; ///< seconds of other ops that overlap with the collective
};

/// Returns the seconds of the matmul and the collective in `count` chunks, minus the seconds of the
/// collective that other ops hide. The first matmul chunk and the last transfer run alone. Each of
/// the count - 1 steps between overlaps a matmul chunk with a transfer. Example without latency and
/// other losses: a matmul of 8 s and a transfer of 8 s take 16 s in 1 chunk, 12 s in 2 chunks and 9
/// s in 8 chunks.
double getOverlapTime(const MachineFigures &machine, const OverlapCase &overlap, int64_t count);
/// Returns the fastest number of chunks: a divisor of `size`, at most 16. Returns 1 if splitting
/// gains less than one percent.
int64_t chooseChunks(const MachineFigures &machine, const OverlapCase &overlap, int64_t size);

} // namespace parashard::fusion

#endif
