// Parses and evaluates learning-rate schedules.
#include "runtime/main/Schedule.h"
#include "runtime/core/Status.h"
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

namespace psrt {

static const std::map<std::string, std::set<std::string>> forms = {
    {"constant", {"warmup"}},
    {"linear", {"warmup", "steps"}},
    {"cosine", {"warmup", "steps", "min"}},
    {"step", {"warmup", "every", "gamma"}}};

Schedule::Schedule(const std::string &text, int64_t total) : total(total) {
  size_t open = text.find('(');
  form = text.substr(0, open);
  auto known = forms.find(form);
  if (known == forms.end())
    PSRT_FAIL(BadArgument,
              "unknown --lr-schedule \"%s\"; expected constant, linear, cosine or step",
              text.c_str());
  if (open != std::string::npos) {
    if (text.back() != ')')
      PSRT_FAIL(BadArgument, "--lr-schedule \"%s\" has no closing parenthesis", text.c_str());
    std::stringstream list(text.substr(open + 1, text.size() - open - 2));
    for (std::string item; std::getline(list, item, ',');) {
      size_t equals = item.find('='), start = item.find_first_not_of(' ');
      std::string key = equals == std::string::npos ? item : item.substr(start, equals - start);
      if (!known->second.count(key))
        PSRT_FAIL(BadArgument, "--lr-schedule %s has no argument \"%s\"", form.c_str(),
                  item.c_str());
      if (arguments.count(key))
        PSRT_FAIL(BadArgument, "--lr-schedule %s has \"%s\" twice; give it once", form.c_str(),
                  key.c_str());
      const char *number = equals == std::string::npos ? "" : item.c_str() + equals + 1;
      char *end = nullptr;
      arguments[key] = std::strtod(number, &end);
      if (*end || end == number || !(arguments[key] >= 0) || std::isinf(arguments[key]))
        PSRT_FAIL(BadArgument, "--lr-schedule %s: \"%s\" is not KEY=NUMBER", form.c_str(),
                  item.c_str());
    }
  }
  if (form == "step" && get("every", 0) < 1)
    PSRT_FAIL(BadArgument, "--lr-schedule step needs every=N with N of at least 1");
  if (arguments.count("steps") && get("steps", 0) <= get("warmup", 0))
    PSRT_FAIL(BadArgument,
              "--lr-schedule %s: steps=%g includes the warm-up and must be above warmup=%g",
              form.c_str(), get("steps", 0), get("warmup", 0));
  if (get("min", 0) > 1)
    PSRT_FAIL(BadArgument,
              "--lr-schedule %s: min=%g must be at most 1: the rate ends at min times its base",
              form.c_str(), get("min", 0));
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
  if (form == "linear")
    return 1 - progress;
  if (form == "cosine") {
    double min = get("min", 0);
    return min + (1 - min) * 0.5 * (1 + std::cos(M_PI * progress));
  }
  if (form == "step")
    return std::pow(get("gamma", 0.1), std::floor(double(step) / get("every", 1)));
  return 1;
}

} // namespace psrt
