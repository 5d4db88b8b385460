// Compares the race detector with a check of all pairs of operations, on random programs.
#include "runtime/testing/driver/Order.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

using psrt::fake::Access;
using psrt::fake::Clock;
using psrt::fake::Order;

namespace {

/// A random program and the result of checking all pairs of its operations.
struct RandomProgram {
  struct Executed {
    unsigned actor;
    uint64_t time;
    Access access;
  };
  std::mt19937 random;
  Order order;
  std::vector<Clock> clocks = std::vector<Clock>(4);
  std::vector<Executed> executed;

  explicit RandomProgram(unsigned seed) : random(seed) {
    for (size_t i = 0; i < clocks.size(); ++i)
      order.addActor("stream " + std::to_string(i));
  }
  unsigned below(unsigned end) { return unsigned(random() % end); }

  bool conflicts(const Executed &earlier, const Access &access, const Clock &clock) {
    bool overlap = earlier.access.begin < access.end && access.begin < earlier.access.end;
    bool ordered = earlier.actor < clock.size() && clock[earlier.actor] >= earlier.time;
    return overlap && (earlier.access.writes || access.writes) && !ordered;
  }

  /// Runs one random operation. Returns false at the first conflict; both checks must find it at
  /// the same operation.
  bool step() {
    unsigned actor = below(4);
    if (below(2) == 0)
      psrt::fake::join(clocks[actor], clocks[below(4)]);
    uint64_t begin = below(40);
    Access access{begin, begin + 1 + below(12), below(3) == 0};
    Clock &clock = clocks[actor];
    bool expected = true;
    for (const Executed &earlier : executed)
      expected &= !conflicts(earlier, access, clock);
    EXPECT_EQ(expected,
              order.perform(actor, clock, "op " + std::to_string(executed.size()), {access}));
    executed.push_back({actor, clock[actor], access});
    return expected;
  }
};

} // namespace

TEST(OrderOfRandomPrograms, agrees_with_a_check_of_all_pairs) {
  testing::internal::CaptureStderr();
  size_t longest = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    RandomProgram program(seed);
    while (program.executed.size() < 60 && program.step() && !HasFailure())
      ;
    longest = std::max(longest, program.executed.size());
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  testing::internal::GetCapturedStderr();
  EXPECT_GT(longest, 10u);
}
