// Describes the machines that a program runs on: rates of a device, and the tiers of the network.
#ifndef PARASHARD_LIB_COSTS_CLUSTER_H
#define PARASHARD_LIB_COSTS_CLUSTER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
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
  std::map<std::string, MatmulRate> matmul; ///< by element type: "f32", "bf16", "f16", "f8"
};

/// A level of the network. Ranks with numbers in the same multiple of `ranks` form an island, in
/// which they communicate without a higher tier. Example: with 8 ranks per island, ranks 0 to 7
/// are one island, and ranks 8 to 15 the next.
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
  /// Factor on the time of a matmul that runs beside a collective.
  double overlapSlowdown = 1;
  /// By the name of the collective, such as "all_reduce"; sorted by ranks, then bytes.
  std::map<std::string, std::vector<MeasuredCollective>> measured;

  /// Returns the number of ranks that one cluster can have; nullopt: any.
  std::optional<int64_t> getMostRanks() const;
};

/// Reads a cluster from JSON (docs/planning.md). Errors start with `path`, and name the key with
/// the actual and the expected value. Every key must be known.
llvm::Expected<Cluster> readCluster(llvm::StringRef text, llvm::StringRef path);

/// Returns the text of a preset, such as "h100-sxm"; nullopt for an unknown name.
std::optional<llvm::StringRef> findPreset(llvm::StringRef name);
/// Returns the names of all presets in alphabetical order.
std::vector<std::string> getPresets();

/// A cluster with the number of ranks that the user named, if any.
struct SizedCluster {
  Cluster cluster;
  std::optional<int64_t> ranks;
};
/// Finds the cluster of the flag `--cluster`: NAME, NAME:RANKS or FILE.json. Errors name the
/// nearest presets.
llvm::Expected<SizedCluster> findCluster(llvm::StringRef given);

} // namespace parashard::costs

#endif
