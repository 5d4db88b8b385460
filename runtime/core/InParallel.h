// Splits host work into equal parts, with one thread per part. Must be used only while no rank
// computes.
#ifndef PSRT_CORE_INPARALLEL_H
#define PSRT_CORE_INPARALLEL_H

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace psrt {

/// Calls body(begin, end) for parts of [0, count), one thread per part, at most `threads` parts.
/// Each part has at least `least` elements, unless there is only one part. The body must not throw.
template <typename Body>
void inParallel(int64_t count, int threads, int64_t least, const Body &body) {
  int64_t parts = std::clamp<int64_t>(count / std::max<int64_t>(1, least), 1, threads);
  std::vector<std::thread> workers;
  for (int64_t part = 1; part < parts; ++part)
    workers.emplace_back([&body, begin = count * part / parts, end = count * (part + 1) / parts] {
      body(begin, end);
    });
  body(0, count / parts);
  for (std::thread &worker : workers)
    worker.join();
}

} // namespace psrt

#endif
