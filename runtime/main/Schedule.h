// Evaluates learning-rate schedules.
#ifndef PSRT_MAIN_SCHEDULE_H
#define PSRT_MAIN_SCHEDULE_H

#include "runtime/core/EnumNames.h"
#include <cstdint>
#include <map>
#include <string>

namespace psrt {

/// The form of a schedule, which is the word before the parenthesis.
enum class ScheduleForm : uint8_t { Constant, Linear, Cosine, Step };

template <> struct EnumNames<ScheduleForm> {
  static constexpr const char *what = "form";
  static constexpr EnumName<ScheduleForm> table[] = {{ScheduleForm::Constant, "constant"},
                                                     {ScheduleForm::Linear, "linear"},
                                                     {ScheduleForm::Cosine, "cosine"},
                                                     {ScheduleForm::Step, "step"}};
};

/// A schedule: the factor of the base learning rate at each step (from 0). With a warm-up of W
/// steps, the factor is (s + 1) / W for s < W.
class Schedule {
public:
  /// `total` is the number of steps where the text gives none. Fails on an unknown form.
  Schedule(const std::string &text, int64_t total);
  double factor(int64_t step) const;

private:
  double get(const std::string &key, double otherwise) const;
  /// Parses "KEY=NUMBER,..." into `arguments`.
  void parseArguments(const std::string &list);
  ScheduleForm form;
  std::map<std::string, double> arguments;
  int64_t total;
};

} // namespace psrt

#endif
