// Places buffers with lifetimes into one arena.
#include "FirstFit.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <numeric>

namespace parashard {
namespace {

/// The buffers alive now, by offset.
class Arena {
public:
  /// The lowest offset with `bytes` free.
  int64_t take(int64_t bytes, int64_t end) {
    int64_t offset = 0;
    for (auto &[begin, buffer] : alive) {
      if (begin - offset >= bytes)
        break;
      offset = std::max(offset, begin + buffer.bytes);
    }
    alive[offset] = {bytes, end};
    return offset;
  }
  /// Frees what ended before `now`.
  void advance(int64_t now) {
    for (auto it = alive.begin(); it != alive.end();)
      it = it->second.end < now ? alive.erase(it) : std::next(it);
  }

private:
  struct Buffer {
    int64_t bytes, end;
  };
  std::map<int64_t, Buffer> alive;
};

} // namespace

MemoryPlan placeByFirstFit(llvm::ArrayRef<Lifetime> buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t(0));
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    if (buffers[a].begin != buffers[b].begin)
      return buffers[a].begin < buffers[b].begin;
    return buffers[a].bytes > buffers[b].bytes;
  });
  MemoryPlan plan;
  plan.offsets.resize(buffers.size(), 0);
  Arena arena;
  for (size_t i : order) {
    int64_t bytes = llvm::alignTo(buffers[i].bytes, kBufferAlignment);
    if (bytes == 0)
      continue;
    arena.advance(buffers[i].begin);
    plan.offsets[i] = arena.take(bytes, buffers[i].end);
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + bytes);
  }
  return plan;
}

} // namespace parashard
