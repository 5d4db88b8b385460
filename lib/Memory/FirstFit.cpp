// Assigns offsets in one arena to buffers with lifetimes.
#include "FirstFit.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <numeric>
#include <queue>
#include <tuple>

namespace parashard::memory {
namespace {

/// The state of an arena at one time: the free gaps, and the live buffers ordered by their ends.
class Arena {
public:
  /// Allocates `bytes` at the lowest free offset until time `end`. Returns the offset.
  int64_t take(int64_t bytes, int64_t end) {
    auto gap = gaps.begin();
    while (gap->second < bytes)
      ++gap;
    auto [offset, size] = *gap;
    gaps.erase(gap);
    if (size > bytes)
      gaps[offset + bytes] = size - bytes;
    alive.emplace(end, offset, bytes);
    return offset;
  }
  /// Frees the buffers that ended before `now`.
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
  std::map<int64_t, int64_t> gaps{{0, INT64_MAX}}; // offset, bytes; no two gaps touch
};

int64_t align(int64_t bytes) { return int64_t(llvm::alignTo(bytes, kBufferAlignment)); }

std::vector<size_t> sortBuffers(llvm::ArrayRef<Lifetime> buffers,
                                llvm::function_ref<bool(const Lifetime &, const Lifetime &)> less) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t(0));
  llvm::stable_sort(order, [&](size_t a, size_t b) { return less(buffers[a], buffers[b]); });
  return order;
}

/// Places buffers in order of birth, like an allocator at run time.
MemoryPlan placeByBirth(llvm::ArrayRef<Lifetime> buffers) {
  std::vector<size_t> order = sortBuffers(buffers, [](const Lifetime &a, const Lifetime &b) {
    return a.begin != b.begin ? a.begin < b.begin : a.bytes > b.bytes;
  });
  MemoryPlan plan;
  plan.offsets.resize(buffers.size(), 0);
  Arena arena;
  for (size_t i : order) {
    int64_t bytes = align(buffers[i].bytes);
    if (bytes == 0)
      continue;
    arena.advance(buffers[i].begin);
    plan.offsets[i] = arena.take(bytes, buffers[i].end);
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + bytes);
  }
  return plan;
}

/// Places buffers in order of death, the latest first.
MemoryPlan placeByDeath(llvm::ArrayRef<Lifetime> buffers) {
  std::vector<Lifetime> mirrored;
  for (const Lifetime &buffer : buffers)
    mirrored.push_back({-buffer.end, -buffer.begin, buffer.bytes});
  return placeByBirth(mirrored);
}

/// Places buffers in `order`, each at the lowest offset that is free during its lifetime.
MemoryPlan placeInOrder(llvm::ArrayRef<Lifetime> buffers, llvm::ArrayRef<size_t> order) {
  MemoryPlan plan;
  plan.offsets.resize(buffers.size(), 0);
  std::map<std::pair<int64_t, size_t>, int64_t> placed; // (offset, buffer): end offset
  for (size_t i : order) {
    int64_t bytes = align(buffers[i].bytes), offset = 0;
    if (bytes == 0)
      continue;
    for (auto [where, end] : placed) {
      const Lifetime &other = buffers[where.second];
      if (other.end < buffers[i].begin || buffers[i].end < other.begin)
        continue;
      if (where.first >= offset + bytes)
        break;
      offset = std::max(offset, end);
    }
    plan.offsets[i] = offset;
    placed[{offset, i}] = offset + bytes;
    plan.bytes = std::max(plan.bytes, offset + bytes);
  }
  return plan;
}

MemoryPlan placeBySize(llvm::ArrayRef<Lifetime> buffers) {
  return placeInOrder(buffers, sortBuffers(buffers, [](const Lifetime &a, const Lifetime &b) {
                        return a.bytes != b.bytes ? a.bytes > b.bytes : a.begin < b.begin;
                      }));
}

/// Places the longest-lived buffers first, so that short-lived buffers lie above them.
MemoryPlan placeByStay(llvm::ArrayRef<Lifetime> buffers) {
  return placeInOrder(buffers, sortBuffers(buffers, [](const Lifetime &a, const Lifetime &b) {
                        int64_t stayA = a.end - a.begin, stayB = b.end - b.begin;
                        return stayA != stayB ? stayA > stayB : a.bytes > b.bytes;
                      }));
}

MemoryPlan placeByArea(llvm::ArrayRef<Lifetime> buffers) {
  return placeInOrder(buffers, sortBuffers(buffers, [](const Lifetime &a, const Lifetime &b) {
                        double areaA = double(a.bytes) * double(a.end - a.begin + 1);
                        double areaB = double(b.bytes) * double(b.end - b.begin + 1);
                        return areaA > areaB;
                      }));
}

/// Improves a plan by placing buffers in other orders, starting with the order of its offsets.
/// After each try, the buffers at the top of the arena move to the front of the order. After 150
/// tries without improvement, the search restarts from the best plan's order and moves about one in
/// 16 buffers, chosen pseudo-randomly, up to 31 positions forward.
class OrderSearch {
public:
  OrderSearch(llvm::ArrayRef<Lifetime> buffers, MemoryPlan first)
      : buffers(buffers), best(std::move(first)), order(buffers.size()) {
    std::iota(order.begin(), order.end(), size_t(0));
    sortByOffset();
  }

  /// Returns the best plan found; stops at a plan of at most `enough` bytes. A try compares all
  /// pairs of buffers, so the number of tries decreases with the square of the number of buffers.
  MemoryPlan run(int64_t enough) {
    constexpr int64_t kMaxPairs = 200'000'000, kMaxTries = 2000, kPatience = 150,
                      kMaxBuffers = 1500;
    int64_t count = buffers.size(), inVain = 0;
    int64_t tries = count > kMaxBuffers ? 0 : std::min(kMaxTries, kMaxPairs / (count * count + 1));
    for (; tries > 0 && best.bytes > enough; --tries) {
      MemoryPlan plan = placeInOrder(buffers, order);
      moveTopForward(plan);
      inVain = plan.bytes < best.bytes ? 0 : inVain + 1;
      if (inVain == 0)
        best = std::move(plan);
      if (inVain < kPatience)
        continue;
      sortByOffset();
      disturb();
      inVain = 0;
    }
    return std::move(best);
  }

private:
  void sortByOffset() {
    llvm::sort(order, [&](size_t a, size_t b) {
      return std::pair(best.offsets[a], a) < std::pair(best.offsets[b], b);
    });
  }
  void moveTopForward(const MemoryPlan &plan) {
    std::stable_partition(order.begin(), order.end(), [&](size_t i) {
      return plan.offsets[i] + align(buffers[i].bytes) == plan.bytes;
    });
  }
  void disturb() {
    for (size_t n = 0; n <= order.size() / 16; ++n) {
      size_t from = draw() % order.size(), to = from - std::min<size_t>(from, draw() % 32);
      std::rotate(order.begin() + to, order.begin() + from, order.begin() + from + 1);
    }
  }
  uint64_t draw() { // the generator of Knuth's MMIX
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
  }

  llvm::ArrayRef<Lifetime> buffers;
  MemoryPlan best;
  std::vector<size_t> order;
  uint64_t state = 1;
};

} // namespace

int64_t getLargestSum(llvm::ArrayRef<Lifetime> buffers) {
  std::map<int64_t, int64_t> changes; // change of the live bytes, by time
  for (const Lifetime &buffer : buffers) {
    changes[buffer.begin] += align(buffer.bytes);
    changes[buffer.end + 1] -= align(buffer.bytes);
  }
  int64_t sum = 0, most = 0;
  for (auto [time, change] : changes)
    most = std::max(most, sum += change);
  return most;
}

MemoryPlan placeByFirstFit(llvm::ArrayRef<Lifetime> buffers) {
  // The methods after placeByDeath compare each buffer with all buffers placed before it. With 8000
  // buffers, this takes a second or two.
  constexpr size_t kMaxCompared = 8000;
  int64_t enough = getLargestSum(buffers) / 200 * 201;
  MemoryPlan best = placeByBirth(buffers);
  for (auto method : {placeByDeath, placeBySize, placeByArea, placeByStay}) {
    if (best.bytes <= enough || (method != placeByDeath && buffers.size() > kMaxCompared))
      break;
    if (MemoryPlan other = method(buffers); other.bytes < best.bytes)
      best = std::move(other);
  }
  return OrderSearch(buffers, std::move(best)).run(enough);
}

} // namespace parashard::memory
