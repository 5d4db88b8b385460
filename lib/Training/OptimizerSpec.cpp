// Parses an optimizer spec such as `*bias=sgd(lr=0.1)`.
#include "OptimizerSpec.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>

using namespace parashard;
using namespace parashard::training;

using llvm::StringRef;

bool OptimizerSpec::acceptsRank(int64_t other) const {
  if (rankPredicate == "<")
    return other < rank;
  if (rankPredicate == "<=")
    return other <= rank;
  if (rankPredicate == ">")
    return other > rank;
  if (rankPredicate == ">=")
    return other >= rank;
  return rankPredicate.empty() || other == rank;
}

namespace {

class Parser {
public:
  explicit Parser(StringRef text) : text(text) { spec.text = text.str(); }

  llvm::Expected<OptimizerSpec> parse() {
    if (llvm::Error error = parsePattern())
      return std::move(error);
    if (llvm::Error error = parseRule())
      return std::move(error);
    if (accept('('))
      if (llvm::Error error = parseArguments())
        return std::move(error);
    skipBlanks();
    if (position != text.size())
      return expected("the end of the optimizer");
    return spec;
  }

private:
  llvm::Error failAt(const llvm::Twine &message) {
    return llvm::createStringError("'" + text + "', column " + llvm::Twine(position + 1) + ": " +
                                   message);
  }
  llvm::Error expected(const llvm::Twine &item) { return failAt("expected " + item); }
  void skipBlanks() {
    while (position < text.size() && llvm::isSpace(text[position]))
      ++position;
  }
  bool accept(char c) {
    skipBlanks();
    if (position >= text.size() || text[position] != c)
      return false;
    ++position;
    return true;
  }
  StringRef takeWord() {
    skipBlanks();
    size_t begin = position;
    while (position < text.size() && (llvm::isAlnum(text[position]) || text[position] == '_'))
      ++position;
    return text.slice(begin, position);
  }

  /// Parses `GLOB=` or `ndim<2=` before the name of the algorithm.
  llvm::Error parsePattern() {
    size_t end = text.take_until([](char c) { return c == '('; }).rfind('=');
    if (end == StringRef::npos)
      return llvm::Error::success();
    StringRef pattern = text.take_front(end).trim();
    if (!pattern.starts_with("ndim") || pattern.drop_front(4).ltrim().find_first_of("<>=") != 0) {
      if (pattern.empty())
        return expected("a glob before '='");
      spec.glob = pattern.str();
      position = end + 1;
      return llvm::Error::success();
    }
    position = text.find("ndim") + 4;
    skipBlanks();
    size_t begin = position;
    while (position < end && StringRef("<>=").contains(text[position]))
      ++position;
    spec.rankPredicate = text.slice(begin, position).str();
    if (!llvm::is_contained({"<", "<=", ">", ">=", "=="}, spec.rankPredicate)) {
      position = begin;
      return expected("<, <=, >, >= or == after 'ndim'");
    }
    skipBlanks();
    if (text.slice(position, end).trim().getAsInteger(10, spec.rank))
      return expected("a number of dims");
    position = end + 1;
    return llvm::Error::success();
  }

  llvm::Error parseRule() {
    skipBlanks();
    size_t begin = position;
    StringRef name = takeWord();
    if (name == "sgd")
      spec.rule = OptimizerSpec::Rule::SGD;
    else if (name == "adam")
      spec.rule = OptimizerSpec::Rule::Adam;
    else if (name == "adamw")
      spec.rule = OptimizerSpec::Rule::AdamW;
    else {
      position = begin;
      return expected("sgd, adam or adamw");
    }
    if (spec.rule == OptimizerSpec::Rule::AdamW)
      spec.weightDecay = 1e-2;
    return llvm::Error::success();
  }

  llvm::Error parseArguments() {
    if (accept(')'))
      return llvm::Error::success();
    do {
      if (llvm::Error error = parseArgument())
        return error;
    } while (accept(','));
    return accept(')') ? llvm::Error::success() : expected("',' or ')'");
  }

  llvm::Error parseNumber(double &value) {
    skipBlanks();
    size_t begin = position;
    while (position < text.size() &&
           (llvm::isAlnum(text[position]) || StringRef("+-.").contains(text[position])))
      ++position;
    if (text.slice(begin, position).getAsDouble(value)) {
      position = begin;
      return expected("a number");
    }
    if (std::isfinite(value) && std::isinf(float(value))) {
      position = begin;
      return expected("a number that f32 can hold");
    }
    return llvm::Error::success();
  }

  /// Parses a number in [low, high).
  llvm::Error parseNumberIn(double &value, double low, double high, StringRef range) {
    skipBlanks();
    size_t begin = position;
    if (llvm::Error error = parseNumber(value))
      return error;
    if (value >= low && value < high)
      return llvm::Error::success();
    position = begin;
    return expected("a number " + range);
  }

  llvm::Error parseBetas() {
    if (!accept('('))
      return expected("'(' before the two betas");
    if (llvm::Error error = parseNumberIn(spec.beta1, 0, 1, "in [0, 1)"))
      return error;
    if (!accept(','))
      return expected("',' and a second beta");
    if (llvm::Error error = parseNumberIn(spec.beta2, 0, 1, "in [0, 1)"))
      return error;
    return accept(')') ? llvm::Error::success() : expected("')' after the two betas");
  }

  llvm::Error parseBool(bool &value) {
    skipBlanks();
    size_t begin = position;
    StringRef word = takeWord();
    value = word.equals_insensitive("true") || word == "1";
    if (value || word.equals_insensitive("false") || word == "0")
      return llvm::Error::success();
    position = begin;
    return expected("true or false");
  }

  llvm::Error parseArgument() {
    skipBlanks();
    size_t begin = position;
    StringRef key = takeWord();
    bool sgd = spec.rule == OptimizerSpec::Rule::SGD;
    bool known = key == "lr" || key == "weight_decay" ||
                 (sgd ? key == "momentum" || key == "dampening" || key == "nesterov"
                      : key == "betas" || key == "eps");
    if (!known || !seen.insert(key).second) {
      position = begin;
      if (known)
        return failAt("'" + key + "' is given twice; remove one");
      return expected(sgd ? "lr, momentum, dampening, nesterov or weight_decay"
                          : "lr, betas, eps or weight_decay");
    }
    if (!accept('='))
      return expected("'=' after '" + key + "'");
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (key == "betas")
      return parseBetas();
    if (key == "nesterov")
      return parseBool(spec.nesterov);
    if (key == "dampening")
      return parseNumber(spec.dampening);
    double &value = key == "lr"             ? spec.lr
                    : key == "weight_decay" ? spec.weightDecay
                    : key == "eps"          ? spec.eps
                                            : spec.momentum;
    return parseNumberIn(value, 0, infinity, "that is finite and at least 0");
  }

  StringRef text;
  size_t position = 0;
  OptimizerSpec spec;
  llvm::StringSet<> seen;
};

} // namespace

llvm::Expected<OptimizerSpec> training::parseOptimizerSpec(StringRef text) {
  auto spec = Parser(text).parse();
  if (spec && spec->nesterov && (spec->momentum == 0 || spec->dampening != 0))
    return llvm::createStringError("'" + text +
                                   "': nesterov needs a momentum above 0 and no dampening");
  return spec;
}
