// Parses and evaluates learning-rate schedules.
#include "runtime/main/Schedule.h"
#include "runtime/core/Status.h"
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

namespace psrt {

/// Returns the names of the arguments of a form.
static const std::set<std::string> &getKeys(ScheduleForm form) {
  static const std::map<ScheduleForm, std::set<std::string>> keys = {
      {ScheduleForm::Constant, {"warmup"}},
      {ScheduleForm::Linear, {"warmup", "steps"}},
      {ScheduleForm::Cosine, {"warmup", "steps", "min"}},
      {ScheduleForm::Step, {"warmup", "every", "gamma"}}};
  return keys.at(form);
}

static ScheduleForm parseForm(const std::string &text) {
  if (std::optional<ScheduleForm> form = findName<ScheduleForm>(text.substr(0, text.find('('))))
    return *form;
  PSRT_FAIL(BadArgument, "unknown --lr-schedule \"%s\"; expected %s", text.c_str(),
            joinNames(listNames<ScheduleForm>()).c_str());
}

void Schedule::parseArguments(const std::string &text) {
  const char *name = nameOf(form);
  std::stringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    size_t equals = item.find('='), start = item.find_first_not_of(' ');
    std::string key = equals == std::string::npos ? item : item.substr(start, equals - start);
    if (!getKeys(form).contains(key))
      PSRT_FAIL(BadArgument, "--lr-schedule %s has no argument \"%s\"; expected %s", name,
                item.c_str(), joinNames({getKeys(form).begin(), getKeys(form).end()}).c_str());
    if (arguments.contains(key))
      PSRT_FAIL(BadArgument, "--lr-schedule %s has \"%s\" twice; give it once", name, key.c_str());
    const char *number = equals == std::string::npos ? "" : item.c_str() + equals + 1;
    char *end = nullptr;
    arguments[key] = std::strtod(number, &end);
    if (*end || end == number || !(arguments[key] >= 0) || std::isinf(arguments[key]))
      PSRT_FAIL(BadArgument,
                "--lr-schedule %s: \"%s\" is not KEY=NUMBER with a number of at least 0", name,
                item.c_str());
  }
}

Schedule::Schedule(const std::string &text, int64_t total) : form(parseForm(text)), total(total) {
  if (size_t open = text.find('('); open != std::string::npos) {
    if (text.back() != ')')
      PSRT_FAIL(BadArgument, "--lr-schedule \"%s\" has no closing parenthesis", text.c_str());
    parseArguments(text.substr(open + 1, text.size() - open - 2));
  }
  if (form == ScheduleForm::Step && get("every", 0) < 1)
    PSRT_FAIL(BadArgument, "--lr-schedule step needs every=E with E of at least 1");
  if (arguments.contains("steps") && get("steps", 0) <= get("warmup", 0))
    PSRT_FAIL(BadArgument,
              "--lr-schedule %s: steps=%g includes the warm-up and must be above warmup=%g",
              nameOf(form), get("steps", 0), get("warmup", 0));
  if (get("min", 0) > 1)
    PSRT_FAIL(BadArgument,
              "--lr-schedule %s: min=%g must be at most 1, since min is the final learning rate as "
              "a fraction of lr",
              nameOf(form), get("min", 0));
}

double Schedule::get(const std::string &key, double otherwise) const {
  auto it = arguments.find(key);
  return it == arguments.end() ? otherwise : it->second;
}

double Schedule::factor(int64_t step) const {
  double warmup = get("warmup", 0), steps = get("steps", double(total));
  if (double(step) < warmup)
    return double(step + 1) / warmup;
  double progress =
      steps > warmup ? std::min(1.0, (double(step) - warmup) / (steps - warmup)) : 1.0;
  if (form == ScheduleForm::Linear)
    return 1 - progress;
  if (form == ScheduleForm::Cosine) {
    double min = get("min", 0);
    return min + (1 - min) * 0.5 * (1 + std::cos(M_PI * progress));
  }
  if (form == ScheduleForm::Step)
    return std::pow(get("gamma", 0.1), std::floor(double(step) / get("every", 1)));
  return 1;
}

} // namespace psrt
