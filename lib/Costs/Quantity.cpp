// Parses and prints quantities.
#include "lib/Costs/Quantity.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace llvm;

namespace parashard::costs {

/// Returns the symbol of a unit without a prefix.
static StringRef getSymbol(Unit unit) {
  switch (unit) {
  case Unit::Bytes:
    return "B";
  case Unit::BytesPerSecond:
    return "B/s";
  case Unit::FlopsPerSecond:
    return "FLOP/s";
  case Unit::Seconds:
    return "s";
  }
  return "";
}

StringRef getExample(Unit unit) {
  switch (unit) {
  case Unit::Bytes:
    return "\"80GB\"";
  case Unit::BytesPerSecond:
    return "\"3.35TB/s\"";
  case Unit::FlopsPerSecond:
    return "\"989TFLOP/s\"";
  case Unit::Seconds:
    return "\"4us\"";
  }
  return "";
}

/// Returns the factor of a prefix: 1e9 for "G", 2^30 for "Gi"; nullopt for any other text.
static std::optional<double> getFactor(StringRef prefix) {
  static constexpr std::pair<StringLiteral, double> kFactors[] = {
      {"", 1},        {"n", 1e-9},    {"u", 1e-6},   {"m", 1e-3}, {"k", 1e3},
      {"M", 1e6},     {"G", 1e9},     {"T", 1e12},   {"P", 1e15}, {"Ki", 0x1p10},
      {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
  for (auto &[name, factor] : kFactors)
    if (prefix == name)
      return factor;
  return std::nullopt;
}

std::optional<double> parseQuantity(StringRef text, Unit unit) {
  size_t end = text.find_first_not_of("0123456789.");
  // An "e" begins an exponent only if digits follow, as in "1e9B".
  if (end != StringRef::npos && text[end] == 'e') {
    size_t sign =
        end + 1 + (text.substr(end + 1).starts_with("-") || text.substr(end + 1).starts_with("+"));
    if (sign < text.size() && isDigit(text[sign]))
      end = text.find_first_not_of("0123456789", sign);
  }
  double number = 0;
  if (text.take_front(end).getAsDouble(number))
    return std::nullopt;
  StringRef rest = end == StringRef::npos ? "" : text.substr(end).ltrim(' ');
  if (!rest.consume_back(getSymbol(unit)))
    return std::nullopt;
  std::optional<double> factor = getFactor(rest);
  bool isTime = unit == Unit::Seconds;
  if (!factor || (isTime ? *factor > 1 : *factor < 1))
    return std::nullopt;
  double value = number * *factor;
  return std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

std::string printSeconds(double seconds) {
  auto print = [](double value, StringRef unit) {
    const char *format = value < 9.995 ? "{0:f2} {1}" : value < 99.95 ? "{0:f1} {1}" : "{0:f0} {1}";
    return formatv(/*Validate=*/false, format, value, unit).str();
  };
  double magnitude = std::abs(seconds);
  if (magnitude < 999.5e-6)
    return print(seconds * 1e6, "us");
  if (magnitude < 999.5e-3)
    return print(seconds * 1e3, "ms");
  return print(seconds, "s");
}

} // namespace parashard::costs
