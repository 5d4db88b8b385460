// Lists the measurements of psrt-probe, and makes the program that contains their instructions.
#ifndef PSRT_PROBE_PROBEPLAN_H
#define PSRT_PROBE_PROBEPLAN_H

#include "runtime/core/Program.h"
#include <string>
#include <vector>

namespace psrt {

/// The figure that a measurement determines. The work of a measurement is a number of flops for
/// matmuls and attention, of ops for launches, and of bytes otherwise.
enum class Figure {
  Matmul,            ///< name: element type
  Attention,         ///< name: "forward" or "backward"
  AttentionMatmul,   ///< a matmul of about as many flops as the attention
  Copy,              ///< a copy in the memory of the device
  Kernel,            ///< an addition, or a normalization of rows
  Launch,            ///< an op with almost no work
  HostCopy,          ///< a copy to the host or back
  Collective,        ///< name: the collective, among consecutive ranks of one host
  HostMessage,       ///< a message to the rank with the same index on the next host
  OverlapMatmul,     ///< a matmul alone
  OverlapCollective, ///< a started collective and its wait
  Overlap,           ///< the collective, with matmuls between its start and its wait
};

/// Instructions [first, last) of the program.
struct CodeRange {
  size_t first = 0, last = 0;
};

/// One measurement. Its `code` is run repeatedly.
struct Probe {
  Figure figure = Figure::Matmul;
  std::string name;
  int variant = 0;   ///< index of the shape; probes that differ only in work form a series
  int64_t ranks = 1; ///< members of a collective
  double work = 0;   ///< work of one run
  CodeRange code;
  /// Overlap: the matmul, which runs repeatedly after the first instruction of `code`.
  CodeRange repeated;
  double weight = 1;  ///< the time budget is divided in proportion to the weights
  double seconds = 0; ///< result: the time of one run; 0: not measured

  bool isInSeriesOf(const Probe &other) const {
    return figure == other.figure && name == other.name && variant == other.variant &&
           ranks == other.ranks;
  }
};

/// Hosts with equal numbers of ranks; the ranks of a host have consecutive numbers.
struct RankLayout {
  int64_t hosts = 1, perHost = 1;
  int64_t size() const { return hosts * perHost; }
};

/// The measurements, and the JSON table of the program with their instructions.
struct ProbePlan {
  std::string table;
  int64_t arenaBytes = 0;
  std::vector<Probe> probes;
};

/// Returns the buffer size in bytes that the figures need: 256 MiB for GPUs, else 64 MiB. Buffers
/// should be larger than the caches.
int64_t getBufferBytes(const Target &target);

/// Plans all measurements. Each buffer of the program has `bufferBytes` bytes, which must be a
/// multiple of 1 MiB.
ProbePlan planProbes(const RankLayout &layout, const Target &target, const std::string &version,
                     int64_t bufferBytes);

} // namespace psrt

#endif
