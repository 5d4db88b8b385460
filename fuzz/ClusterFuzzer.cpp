// Fuzzes the reader of cluster files (`--cluster FILE.json`), and the times computed for a cluster
// that was read.
#include "fuzz/JsonMutator.h"
#include "lib/Costs/CollectiveCost.h"

using namespace parashard::costs;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  auto cluster = readCluster(text, "cluster.json");
  if (!cluster) {
    llvm::consumeError(cluster.takeError());
    return 0;
  }
  for (Collective collective :
       {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
        Collective::AllToAll, Collective::Permute})
    for (const Group &group : {Group{{1, 2}}, Group{{4, 8}}, Group{{1, 3}, {64, 5}}})
      if (double seconds = getSeconds(*cluster, collective, group, 1 << 20); !(seconds >= 0))
        __builtin_trap();
  if (double seconds = cluster->device.getMatmulRate("bf16").getSeconds(1 << 30); !(seconds >= 0))
    __builtin_trap();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return fuzz::mutateInput(data, size, maxSize, seed, fuzz::mutateJson);
}
