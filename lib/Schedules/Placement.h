// Maps the stages of a pipeline to ranks.
#ifndef PARASHARD_LIB_SCHEDULES_PLACEMENT_H
#define PARASHARD_LIB_SCHEDULES_PLACEMENT_H

#include <cstdint>

namespace parashard::schedules {

enum class PlacementKind {
  Loop, ///< stage s on rank s mod ranks
  V,    ///< like Loop, but chunks 1, 3, ... run from the last rank to the first
};

/// Assigns the `ranks * chunks` stages of a pipeline to its ranks, `chunks` stages per rank. A rank
/// here is a coordinate on the pipeline axis. Stages, ranks and chunks count from 0.
/// Example of a V with 2 ranks and 2 chunks: stages 0 1 2 3 are on ranks 0 1 1 0.
struct Placement {
  PlacementKind kind = PlacementKind::Loop;
  int64_t ranks = 1;
  int64_t chunks = 1;

  int64_t getNumStages() const { return ranks * chunks; }
  int64_t getChunk(int64_t stage) const { return stage / ranks; }
  int64_t getRank(int64_t stage) const { return turn(getChunk(stage), stage % ranks); }
  int64_t getStage(int64_t rank, int64_t chunk) const { return chunk * ranks + turn(chunk, rank); }

private:
  int64_t turn(int64_t chunk, int64_t index) const {
    return kind == PlacementKind::V && chunk % 2 ? ranks - 1 - index : index;
  }
};

} // namespace parashard::schedules

#endif
