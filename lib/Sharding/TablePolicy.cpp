// Implements the tables policy: splits the rows of embedding tables.
#include "lib/Sharding/SeedBuilder.h"

namespace parashard::sharding {

namespace {
class TableFinder : SeedBuilder {
public:
  explicit TableFinder(const ShardingGraph &graph) : SeedBuilder(graph, "tables") {}

  std::vector<Seed> run() {
    for (unsigned edge : structure.getForward())
      splitTable(edge, "row parallel, an embedding table");
    return std::move(seeds);
  }
};
} // namespace

std::vector<Seed> seedTables(const ShardingGraph &graph) {
  return graph.mesh.getAxes({ps::AxisKind::Tensor}).empty() ? std::vector<Seed>()
                                                            : TableFinder(graph).run();
}

} // namespace parashard::sharding
