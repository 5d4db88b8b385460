// Places buffers with lifetimes into one arena.
#include "FirstFit.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <numeric>
#include <queue>
#include <tuple>

namespace parashard {
namespace {

/// What is free, and the buffers alive now by their end: no step looks at all that is alive.
class Arena {
public:
  /// The lowest offset with `bytes` free.
  int64_t take(int64_t bytes, int64_t end) {
    auto gap = gaps.begin();
    while (gap->second < bytes)
      ++gap;
    auto [offset, size] = *gap;
    gaps.erase(gap);
    if (size > bytes)
      gaps[offset + bytes] = size - bytes;
    alive.push({end, offset, bytes});
    return offset;
  }
  /// Frees what ended before `now`.
  void advance(int64_t now) {
    for (; !alive.empty() && std::get<0>(alive.top()) < now; alive.pop())
      free(std::get<1>(alive.top()), std::get<2>(alive.top()));
  }

private:
  void free(int64_t offset, int64_t bytes) {
    auto next = gaps.lower_bound(offset);
    if (next != gaps.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = gaps.erase(next);
    }
    if (next != gaps.begin())
      if (auto previous = std::prev(next); previous->first + previous->second == offset) {
        previous->second += bytes;
        return;
      }
    gaps[offset] = bytes;
  }

  using Buffer = std::tuple<int64_t, int64_t, int64_t>; // end, offset, bytes
  std::priority_queue<Buffer, std::vector<Buffer>, std::greater<>> alive;
  std::map<int64_t, int64_t> gaps{{0, INT64_MAX}}; // offset, bytes; none touches the next
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
