// Describes the machines that a program runs on: rates of a device, and the tiers of the network.
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
  /// By ascending flops. Between points, the share is linear in the logarithm of the flops; beyond
  /// the ends, it is that of the nearest point. Empty: the peak.
  std::vector<EfficiencyPoint> efficiency;

  /// Returns the seconds of a matmul of `flops` floating-point operations.
  double getSeconds(double flops) const;
};

/// Kinds of work of matrix units. Attention reaches a smaller share of the peak than matmuls of as
/// many flops.
enum class Contraction { Matmul, Attention, AttentionGrad };

/// One rank's device.
struct Device {
  std::string target;         ///< a target of ps-compile, such as "cuda:sm_90"
  double memory = 0;          ///< bytes
  double reserve = 0;         ///< bytes that the driver, libraries and communication take
  double memoryBandwidth = 0; ///< bytes per second
  double launch = 0;          ///< seconds to start a kernel
  double hostBandwidth = 0;   ///< bytes per second to host memory, in each direction
  /// Share of the memory bandwidth that fused kernels reach.
  double elementwiseEfficiency = 1;
  /// Rate of attention, relative to matmuls of as many flops.
  double attentionForward = 1, attentionBackward = 1;
  /// By element type: "f32" (always), "bf16", "f16", "f8".
  std::map<std::string, MatmulRate> matmul;

  /// Returns the rate of an element type; that of f32 for types without a rate of their own.
  const MatmulRate &getMatmulRate(llvm::StringRef type) const;
};

/// A level of the network. Ranks with the same value of rank / `ranks` (rounded down) form an
/// island, in which they communicate without a higher tier. Example: with 8 ranks per island, ranks
/// 0 to 7 are one island, and ranks 8 to 15 the next.
struct Tier {
  std::string name;
  int64_t ranks = 0;    ///< ranks per island; 0: all ranks
  double bandwidth = 0; ///< bytes per second that one rank sends, while it receives as many
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
  /// Factor on the time of a matmul that runs beside a collective: 1 if both run as fast as alone,
  /// 2 if the overlap saves no time.
  double overlapSlowdown = 1;
  /// By the name of the collective, such as "all_reduce"; sorted by ranks, then bytes.
  std::map<std::string, std::vector<MeasuredCollective>> measured;

  /// Returns the share of a collective that does not slow down a concurrent matmul, from 0 to 1.
  double getOverlapShare() const { return std::clamp(2 - overlapSlowdown, 0.0, 1.0); }
  /// Returns the number of ranks that one cluster can have; nullopt: any.
  std::optional<int64_t> getMostRanks() const;
};

/// Returns copies of a cluster in which one figure is lower or higher by a share: the rate of
/// matmuls, the memory bandwidth, the time of a launch, and the bandwidth and latency of each tier.
std::vector<Cluster> varyFigures(const Cluster &cluster, double share);

/// Reads a cluster from JSON (docs/planning.md). Errors start with `path`, and name the key with
/// the actual and the expected value. Every key must be known.
llvm::Expected<Cluster> readCluster(llvm::StringRef text, llvm::StringRef path);

/// Returns the text of a preset, such as "h100-sxm"; nullopt for an unknown name.
std::optional<llvm::StringRef> findPreset(llvm::StringRef name);
/// Returns the names of all presets in alphabetical order.
std::vector<std::string> getPresets();

/// Returns the preset for a target of ps-compile, where the user names no cluster: GPUs of that
/// generation in nodes of eight, or CPUs.
llvm::StringRef getDefaultPreset(llvm::StringRef target);

/// A cluster with the number of ranks that the user named, if any.
struct SizedCluster {
  Cluster cluster;
  std::optional<int64_t> ranks;
};
/// Returns the file that `--cluster FILE.json` or `FILE.json:RANKS` names; nullopt for a preset.
std::optional<std::string> findClusterFile(llvm::StringRef given);
/// Finds the cluster of the flag `--cluster`: NAME or FILE.json, optionally followed by `:RANKS`.
/// Errors name the nearest presets.
llvm::Expected<SizedCluster> findCluster(llvm::StringRef given);

} // namespace parashard::costs

#endif
