// Describes the machines that a program runs on: the rates of a device, and the tiers of the
// network.
#ifndef PARASHARD_LIB_COSTS_CLUSTER_H
#define PARASHARD_LIB_COSTS_CLUSTER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace parashard::costs {

/// The share of the peak rate that a matmul of `flops` floating-point operations reaches.
struct EfficiencyPoint {
  double flops, share;
};

/// The rate of matmuls in one element type.
struct MatmulRate {
  double peak = 0; ///< FLOP/s of the data sheet, without sparsity
  /// Points in ascending order of flops. Between two points, the share is linear in the logarithm
  /// of the flops. Outside the points, the share of the nearest point applies. Without points,
  /// every matmul reaches the peak.
  std::vector<EfficiencyPoint> efficiency;

  /// Returns the seconds of a matmul of `flops` floating-point operations.
  double getSeconds(double flops) const;
};

/// Kinds of work on matrix units (such as tensor cores). Attention usually reaches a smaller share
/// of the peak than a matmul with the same number of flops.
enum class Contraction { Matmul, Attention, AttentionGrad };

/// One rank's device.
struct Device {
  std::string target;         ///< a target of ps-compile, such as "cuda:sm_90"
  double memory = 0;          ///< bytes
  double reserve = 0;         ///< bytes that the driver, libraries and communication use
  double memoryBandwidth = 0; ///< bytes per second
  double launch = 0;          ///< seconds to start a kernel
  double hostBandwidth = 0;   ///< bytes per second to host memory, in each direction
  /// Share of the memory bandwidth that kernels reach.
  double elementwiseEfficiency = 1;
  /// Rates of the forward and the backward of attention, relative to a matmul with the same number
  /// of flops.
  double attentionForward = 1, attentionBackward = 1;
  /// Rates by element type: "f32" (required), "bf16", "f16", "f8".
  std::map<std::string, MatmulRate> matmul;

  /// Returns the rate of an element type, or the rate of f32 for types without a rate of their own.
  const MatmulRate &getMatmulRate(llvm::StringRef type) const;
};

/// A level of the network. Ranks with the same value of rank / `ranks` (rounded down) form an
/// island. They communicate with each other without using an outer tier. Example: with 8 ranks per
/// island, ranks 0 to 7 are one island, and ranks 8 to 15 the next.
struct Tier {
  std::string name;
  int64_t ranks = 0;    ///< ranks per island; 0: all ranks
  double bandwidth = 0; ///< bytes per second that one rank sends, while it receives equally many
  double latency = 0;   ///< seconds until a small message arrives
};

/// A measured collective over consecutive ranks.
struct MeasuredCollective {
  int64_t ranks;
  double bytes, seconds;
};

/// A cluster, as read from a file.
struct Cluster {
  std::string name, source;
  Device device;
  std::vector<Tier> tiers; ///< from the innermost to the outermost
  /// The factor by which a matmul takes longer while a collective runs: 1 if both run at full
  /// speed, 2 if the overlap saves no time.
  double overlapSlowdown = 1;
  /// Measurements by the name of the collective, such as "all_reduce". Each list is sorted by
  /// ranks, then by bytes.
  std::map<std::string, std::vector<MeasuredCollective>> measured;

  /// Returns the share of overlapped time that is hidden, from 0 to 1. A matmul of m seconds and a
  /// concurrent collective of c seconds together take m + c - share * min(m, c) seconds.
  double getOverlapShare() const { return std::clamp(2 - overlapSlowdown, 0.0, 1.0); }
  /// Returns the maximum number of ranks of the cluster; nullopt if any number is possible.
  std::optional<int64_t> getMostRanks() const;
};

/// Returns two copies of a cluster for each of its figures: one with the figure multiplied by 1 -
/// `share`, and one by 1 + `share`. The figures are the rate of matmuls, the memory bandwidth, the
/// time of a launch, and the bandwidth and latency of each tier.
std::vector<Cluster> varyFigures(const Cluster &cluster, double share);

/// Reads a cluster from JSON (docs/planning.md). An error message starts with `path`, and contains
/// the key, the actual value and the expected value. An unknown key is an error.
llvm::Expected<Cluster> readCluster(llvm::StringRef text, llvm::StringRef path);

/// Returns the text of a preset, such as "h100-sxm"; nullopt for an unknown name.
std::optional<llvm::StringRef> findPreset(llvm::StringRef name);
/// Returns the names of all presets in alphabetical order.
std::vector<std::string> getPresets();

/// Returns the name of the preset for a target of ps-compile, if the user specifies no cluster.
/// Example: "cuda:sm_90" gives "h100-sxm" (nodes of eight H100 GPUs), and "cpu" gives "cpu-mpi".
llvm::StringRef getDefaultPreset(llvm::StringRef target);

/// A cluster, and the number of ranks if the user specified one.
struct SizedCluster {
  Cluster cluster;
  std::optional<int64_t> ranks;
};
/// Returns the file that `--cluster FILE.json` or `FILE.json:RANKS` names; nullopt for a preset.
std::optional<std::string> findClusterFile(llvm::StringRef given);
/// Finds the cluster of the flag `--cluster`: NAME or FILE.json, optionally followed by `:RANKS`.
/// The error about an unknown NAME lists the presets with similar names.
llvm::Expected<SizedCluster> findCluster(llvm::StringRef given);

} // namespace parashard::costs

#endif
