// Lists published pipeline bubbles with the times that they were computed from.
#ifndef PARASHARD_TEST_PLAN_PUBLISHEDBUBBLES_H
#define PARASHARD_TEST_PLAN_PUBLISHEDBUBBLES_H

#include "lib/Schedules/Simulator.h"

namespace parashard::schedules {

/// Times of a stage and of a message (`hop`) in ms, and the idle fraction of a step under 1F1B and
/// ZB-H1.
struct Published {
  const char *model;
  int64_t ranks, microBatches;
  double forward, backwardInput, backwardWeight, hop;
  double bubble1F1B, bubbleH1;
};

/// Zero Bubble Pipeline Parallelism (arXiv 2401.10241): inputs of Table 9, bubbles of Table 5.
inline constexpr Published kPublished[] = {
    {"1.5B", 8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1585},
    {"1.5B", 8, 64, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0674},
    {"6.2B", 8, 32, 29.802, 29.428, 19.530, 0.577, 0.1898, 0.1045},
    {"14.6B", 16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1397},
    {"14.6B", 16, 128, 11.325, 11.308, 8.109, 0.378, 0.1251, 0.0576},
    {"28.3B", 32, 128, 10.408, 10.204, 7.703, 0.408, 0.2168, 0.1106},
};

} // namespace parashard::schedules

#endif
