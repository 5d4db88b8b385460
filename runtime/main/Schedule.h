// Evaluates learning-rate schedules.
#ifndef PSRT_MAIN_SCHEDULE_H
#define PSRT_MAIN_SCHEDULE_H

#include "runtime/core/EnumNames.h"
#include <cstdint>
#include <map>
#include <string>

namespace psrt {

/// The kind of a schedule: the word before the parenthesis.
enum class ScheduleForm : uint8_t { Constant, Linear, Cosine, Step };

template <> struct EnumNames<ScheduleForm> {
  static constexpr const char *what = "form";
  static constexpr EnumName<ScheduleForm> table[] = {{ScheduleForm::Constant, "constant"},
                                                     {ScheduleForm::Linear, "linear"},
                                                     {ScheduleForm::Cosine, "cosine"},
                                                     {ScheduleForm::Step, "step"}};
};

/// A learning-rate schedule: for each step s = 0, 1, ..., a factor of the base learning rate. With
/// a warm-up of W steps, the factor is (s + 1) / W for s < W.
class Schedule {
public:
  /// `text` is the value of --lr-schedule. `total` is the default of the argument `steps` in
  /// `text`. Fails if `text` is invalid.
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
