// Binds symbols of the export to numbers, and evaluates expressions over symbols (SymPy's srepr
// form, or infix).
#include "lib/Import/Pt2/Sizes.h"
#include "dialects/ps/Refusal.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <functional>
#include <set>

using namespace llvm;

namespace parashard::import {
namespace {

using Values = std::map<std::string, int64_t>;

/// A recursive-descent parser for `Add(Symbol('s0', integer=True), Integer(2))` and `2*s0 + 1`.
class ExpressionParser {
public:
  ExpressionParser(StringRef text, function_ref<std::optional<int64_t>(StringRef)> symbol)
      : text(text), symbol(symbol) {}

  std::optional<int64_t> parse() {
    std::optional<int64_t> value = sum();
    text = text.ltrim();
    return text.empty() ? value : std::nullopt;
  }

private:
  bool consume(StringRef token) {
    text = text.ltrim();
    return text.consume_front(token);
  }

  std::optional<int64_t> sum() {
    std::optional<int64_t> value = product();
    while (value) {
      bool subtracts = consume("-");
      if (!subtracts && !consume("+"))
        break;
      std::optional<int64_t> right = product();
      value = !right      ? std::nullopt
              : subtracts ? checkedSub(*value, *right)
                          : checkedAdd(*value, *right);
    }
    return value;
  }

  std::optional<int64_t> product() {
    std::optional<int64_t> value = atom();
    while (value) {
      bool divides = consume("//");
      if (!divides && !consume("*"))
        break;
      std::optional<int64_t> right = atom();
      value = !right ? std::nullopt : divides ? divide(*value, *right) : checkedMul(*value, *right);
    }
    return value;
  }

  /// Divides and rounds down. Returns nullopt if the result does not exist or does not fit.
  static std::optional<int64_t> divide(int64_t value, int64_t by) {
    if (by == 0 || (by == -1 && value == INT64_MIN))
      return std::nullopt;
    return divideFloorSigned(value, by);
  }

  std::optional<int64_t> atom() {
    if (depth == kDeepest)
      return std::nullopt;
    ++depth;
    std::optional<int64_t> value = nestedAtom();
    --depth;
    return value;
  }

  std::optional<int64_t> nestedAtom() {
    if (consume("-")) {
      std::optional<int64_t> value = atom();
      return value ? checkedSub<int64_t>(0, *value) : std::nullopt;
    }
    if (consume("(")) {
      std::optional<int64_t> value = sum();
      return consume(")") ? value : std::nullopt;
    }
    int64_t number;
    text = text.ltrim();
    if (!text.empty() && isDigit(text[0]))
      return text.consumeInteger(10, number) ? std::nullopt : std::optional(number);
    StringRef name = text.take_while([](char c) { return isAlnum(c) || c == '_' || c == '.'; });
    text = text.drop_front(name.size());
    if (name.empty())
      return std::nullopt;
    if (name == "Symbol")
      return symbolCall();
    return consume("(") ? call(name.contains('.') ? name.rsplit('.').second : name) : symbol(name);
  }

  /// Parses Symbol('s72', positive=True, integer=True).
  std::optional<int64_t> symbolCall() {
    if (!consume("("))
      return std::nullopt;
    auto [head, rest] = text.split(')');
    text = rest;
    return symbol(head.split(',').first.trim().trim('\'').trim('"'));
  }

  std::optional<int64_t> call(StringRef name) {
    SmallVector<int64_t> args;
    while (!consume(")")) {
      std::optional<int64_t> value = sum();
      if (!value)
        return std::nullopt;
      args.push_back(*value);
      consume(",");
    }
    return apply(name, args);
  }

  using Checked = std::optional<int64_t> (*)(int64_t, int64_t);

  static std::optional<int64_t> fold(int64_t start, ArrayRef<int64_t> args, Checked f) {
    std::optional<int64_t> value = start;
    for (int64_t arg : args)
      value = value ? f(*value, arg) : std::nullopt;
    return value;
  }

  static std::optional<int64_t> power(int64_t base, int64_t exponent) {
    if (exponent < 0 || (exponent >= 64 && base != 0 && base != 1 && base != -1))
      return std::nullopt;
    std::optional<int64_t> value = 1;
    for (int64_t i = 0; value && i < (exponent < 64 ? exponent : exponent % 2 + 2); ++i)
      value = checkedMul(*value, base);
    return value;
  }

  static std::optional<int64_t> apply(StringRef name, ArrayRef<int64_t> args) {
    if (args.empty())
      return std::nullopt;
    if (name == "Integer")
      return args[0];
    if (name == "Add")
      return fold(0, args, checkedAdd<int64_t>);
    if (name == "Mul")
      return fold(1, args, checkedMul<int64_t>);
    if (name == "Max")
      return *llvm::max_element(args);
    if (name == "Min")
      return *llvm::min_element(args);
    if (args.size() != 2)
      return std::nullopt;
    if (name == "Pow")
      return power(args[0], args[1]);
    std::optional<int64_t> quotient = divide(args[0], args[1]);
    if (!quotient)
      return std::nullopt;
    if (name == "FloorDiv" || name == "CleanDiv" || name == "IntTrueDiv")
      return quotient;
    // The remainder has the sign of the divisor, as in Python.
    int64_t remainder = args[0] - *quotient * args[1];
    if (name == "Mod" || name == "PythonMod")
      return remainder;
    if (name == "CeilDiv")
      return *quotient + (remainder != 0);
    return std::nullopt;
  }

  /// Maximum depth of nested expressions, since the parser is recursive.
  static constexpr unsigned kDeepest = 256;

  StringRef text;
  unsigned depth = 0;
  function_ref<std::optional<int64_t>(StringRef)> symbol;
};

/// Returns the symbol if the expression is a single symbol, else "".
std::string getSymbol(StringRef expression) {
  std::string found;
  unsigned count = 0;
  std::optional<int64_t> value =
      ExpressionParser(expression, [&](StringRef name) -> std::optional<int64_t> {
        found = name.str();
        ++count;
        return 1234567;
      }).parse();
  return count == 1 && value == 1234567 ? found : "";
}

/// A dim of an input.
struct InputDim {
  std::string input;
  unsigned dim;
  const Size *size;
};

std::string describe(const InputDim &d) { return formatv("{0}.{1}", d.input, d.dim); }

/// The symbols of a program, and the dims of inputs in which they occur.
struct Symbols {
  std::vector<InputDim> dims;
  std::map<std::string, std::vector<InputDim>> occurrences;
  std::map<std::string, int64_t> hints;
  std::vector<std::string> order;
  const ExportedProgram &program;

  explicit Symbols(const ExportedProgram &program) : program(program) {
    for (const InputSpec &input : program.inputs)
      if (input.kind == InputSpec::User)
        addInput(input.name);
  }

  void addInput(const std::string &name) {
    auto meta = program.graph.tensors.find(name);
    if (meta == program.graph.tensors.end())
      return;
    for (auto [i, size] : enumerate(meta->second.sizes)) {
      dims.push_back({name, unsigned(i), &size});
      std::string symbol = getSymbol(size.expression);
      if (symbol.empty())
        continue;
      if (!occurrences.contains(symbol))
        order.push_back(symbol);
      occurrences[symbol].push_back(dims.back());
      if (size.hasHint)
        hints[symbol] = size.value;
    }
  }

  const InputDim *find(StringRef input, unsigned dim) const {
    for (const InputDim &d : dims)
      if (d.input == input && d.dim == dim)
        return &d;
    return nullptr;
  }

  std::string describeSymbol(const std::string &symbol) const {
    std::vector<std::string> where;
    auto it = occurrences.find(symbol);
    if (it != occurrences.end())
      for (const InputDim &d : it->second)
        where.push_back(describe(d));
    return where.empty() ? symbol : symbol + " (" + join(where, ", ") + ")";
  }

  std::string listDims() const {
    std::vector<std::string> all;
    for (const InputDim &d : dims)
      all.push_back(describe(d) + (d.size->isStatic() ? "=" + std::to_string(d.size->value) : ""));
    return join(all, ", ");
  }

  /// Returns advice to export with `dynamic_shapes` that make the given dims dynamic.
  std::string adviseDynamic(ArrayRef<InputDim> changed) const {
    std::vector<std::string> parts;
    for (const InputDim &d : changed)
      parts.push_back(formatv("\"{0}\": {{{1}: torch.export.Dim(\"{2}\")}", d.input, d.dim,
                              d.dim == 0 ? "batch" : "dim" + std::to_string(d.dim)));
    return "export with dynamic_shapes={" + join(parts, ", ") + "}";
  }
};

/// The batch dim of each input: dim 0, unless --batch-dim specifies another. Ignores malformed
/// entries, which `ps-autodiff` reports.
class BatchDims {
public:
  explicit BatchDims(ArrayRef<std::string> options) {
    for (StringRef option : options) {
      auto [input, dim] = option.rsplit('=');
      unsigned number;
      if (option == "none")
        fallback.reset(), given.clear();
      else if (dim == "none")
        given[input.str()] = std::nullopt;
      else if (!dim.getAsInteger(10, number))
        given[input.str()] = number;
    }
  }

  bool isBatch(const InputDim &d) const {
    auto it = given.find(d.input);
    return (it == given.end() ? fallback : it->second) == d.dim;
  }

  std::vector<InputDim> list(const Symbols &symbols) const {
    std::vector<InputDim> result;
    copy_if(symbols.dims, std::back_inserter(result),
            [&](const InputDim &d) { return isBatch(d); });
    return result;
  }

private:
  std::map<std::string, std::optional<unsigned>> given;
  std::optional<unsigned> fallback = 0;
};

Error checkRange(const Symbols &symbols, const std::string &symbol, int64_t value) {
  auto it = symbols.program.ranges.find(symbol);
  if (value >= 1 &&
      (it == symbols.program.ranges.end() ||
       (value >= it->second.min.value_or(0) && value <= it->second.max.value_or(INT64_MAX))))
    return Error::success();
  std::string range =
      it == symbols.program.ranges.end() || !it->second.max
          ? formatv("at least {0}",
                    it == symbols.program.ranges.end() ? 1 : it->second.min.value_or(1))
                .str()
          : formatv("{0} to {1}", it->second.min.value_or(0), *it->second.max).str();
  return createStringError(
      formatv("dim {0} is {1}; the export allows {2}", symbols.describeSymbol(symbol), value, range)
          .str());
}

Error setSymbol(const Symbols &symbols, const std::string &symbol, int64_t value, Values &values) {
  auto [it, inserted] = values.emplace(symbol, value);
  if (!inserted && it->second != value)
    return createStringError(formatv("dim {0} is given as {1} and as {2}; the export has a single "
                                     "symbol for it, so give one value",
                                     symbols.describeSymbol(symbol), it->second, value)
                                 .str());
  return checkRange(symbols, symbol, value);
}

Error setDim(const Symbols &symbols, const InputDim &dim, int64_t value, Values &values) {
  if (dim.size->isStatic()) {
    if (dim.size->value == value)
      return Error::success();
    return createStringError(formatv("dim {0} is fixed to {1} by the export, not {2}; {3}",
                                     describe(dim), dim.size->value, value,
                                     symbols.adviseDynamic({dim}))
                                 .str());
  }
  std::string symbol = getSymbol(dim.size->expression);
  if (symbol.empty())
    return createStringError(
        formatv("dim {0} is the expression {1}; bind its symbol with --dim SYMBOL=N", describe(dim),
                dim.size->expression)
            .str());
  return setSymbol(symbols, symbol, value, values);
}

/// Applies "INPUT.D=N" or "SYMBOL=N".
Error applyDim(const Symbols &symbols, StringRef option, Values &values) {
  auto [target, number] = option.rsplit('=');
  int64_t value;
  if (target.empty() || number.getAsInteger(10, value))
    return createStringError("expected INPUT.D=N or SYMBOL=N");
  unsigned dim;
  auto [input, dimText] = target.rsplit('.');
  if (!dimText.empty() && !dimText.getAsInteger(10, dim)) {
    if (const InputDim *found = symbols.find(input, dim))
      return setDim(symbols, *found, value, values);
  } else if (symbols.occurrences.contains(target.str()) ||
             symbols.program.ranges.contains(target.str())) {
    return setSymbol(symbols, target.str(), value, values);
  }
  std::string known = join(symbols.order, ", ");
  return createStringError(
      "no such dim; inputs have " + symbols.listDims() +
      (known.empty() ? std::string("; the export has no symbols") : "; symbols: " + known));
}

/// Sets each symbol that is the batch dim of an input to `batch`. Example: for inputs x [s0, 3] and
/// y [s1, 3], sets s0 and s1.
Error applyBatch(const Symbols &symbols, const BatchDims &batches, int64_t batch, Values &values) {
  std::vector<InputDim> dims = batches.list(symbols);
  bool isBound = false;
  for (const InputDim &d : dims) {
    std::string symbol = getSymbol(d.size->expression);
    if (symbol.empty())
      continue;
    isBound = true;
    auto given = values.find(symbol);
    if (given != values.end() && given->second != batch)
      return createStringError(
          formatv("dim {0} is given as {1} by --dim; remove that flag, or add --batch-dim {2}=none "
                  "if dim {3} of this input is not a batch",
                  symbols.describeSymbol(symbol), given->second, d.input, d.dim)
              .str());
    if (Error e = setSymbol(symbols, symbol, batch, values))
      return e;
  }
  if (isBound)
    return Error::success();
  for (const InputDim &d : dims)
    if (!d.size->isStatic())
      return setDim(symbols, d, batch, values);
  for (const InputDim &d : dims)
    if (d.size->value != batch)
      return createStringError(formatv("the export fixes the batch to {0}; {1}", d.size->value,
                                       symbols.adviseDynamic(dims))
                                   .str());
  return Error::success();
}

/// Binds a symbol without a flag to its size at export. Adds a note with the flag that would change
/// the size.
Error bindHint(const Symbols &symbols, const BatchDims &batches, const std::string &symbol,
               Values &values, std::vector<std::string> &notes) {
  auto hint = symbols.hints.find(symbol);
  const std::vector<InputDim> &occurrences = symbols.occurrences.at(symbol);
  bool isBatch = any_of(occurrences, [&](const InputDim &d) { return batches.isBatch(d); });
  std::string flag = isBatch ? "batch" : "dim " + describe(occurrences.front()) + "=";
  flag = ps::spellFlag(flag) + (isBatch ? " N" : "N");
  if (hint == symbols.hints.end())
    return createStringError("dim " + symbols.describeSymbol(symbol) +
                             " has no size in the export; give " + flag);
  values[symbol] = hint->second;
  notes.push_back(formatv("dim {0} keeps its size at export, {1}; {2} changes it",
                          symbols.describeSymbol(symbol), hint->second, flag));
  return Error::success();
}

/// Fails if inputs have different batch sizes. Example: --batch 4 with inputs x [8, 3], whose batch
/// size the export fixes, and y [s0, 3].
Error checkBatches(const Symbols &symbols, const BatchDims &batches, const Values &values) {
  const InputDim *first = nullptr;
  int64_t expected = 0;
  std::vector<InputDim> dims = batches.list(symbols);
  std::stable_partition(dims.begin(), dims.end(),
                        [](const InputDim &d) { return !d.size->isStatic(); });
  for (const InputDim &d : dims) {
    auto bound = values.find(getSymbol(d.size->expression));
    if (!d.size->isStatic() && bound == values.end())
      continue;
    int64_t samples = d.size->isStatic() ? d.size->value : bound->second;
    if (first && samples != expected)
      return createStringError(
          formatv("input \"{0}\" would have {1} samples, and input \"{2}\" {3}{4}; write "
                  "--batch-dim {2}=none if dim {5} of that input is not a batch",
                  first->input, expected, d.input, samples,
                  d.size->isStatic()
                      ? ", which the export fixes; " + symbols.adviseDynamic({d}) +
                            ", and do not compute a number from that dim, such as len(y)"
                      : "",
                  d.dim)
              .str());
    if (!first)
      first = &d, expected = samples;
  }
  return Error::success();
}

Error multiplyBatch(const Symbols &symbols, const std::set<std::string> &batchSymbols,
                    int64_t factor, Values &values) {
  if (batchSymbols.empty())
    return createStringError("the export fixes the batch");
  for (const std::string &symbol : batchSymbols) {
    auto value = values.find(symbol);
    if (value == values.end())
      return createStringError("the export fixes the batch of an input");
    value->second *= factor;
    if (Error e = checkRange(symbols, symbol, value->second))
      return e;
  }
  return Error::success();
}

} // namespace

Expected<SizeBinding> SizeBinding::bind(const ExportedProgram &program, const SizeOptions &options,
                                        std::vector<std::string> &notes) {
  Symbols symbols(program);
  BatchDims batches(options.batchDims);
  SizeBinding binding;
  for (const std::string &option : options.dims)
    if (Error e = applyDim(symbols, option, binding.values))
      return ps::createFlagError("dim " + option, ": " + toString(std::move(e)));
  if (options.batch)
    if (Error e = applyBatch(symbols, batches, options.batch, binding.values))
      return ps::createFlagError("batch " + Twine(options.batch), ": " + toString(std::move(e)));
  for (const std::string &symbol : symbols.order)
    if (!binding.values.contains(symbol))
      if (Error e = bindHint(symbols, batches, symbol, binding.values, notes))
        return std::move(e);
  std::string flag = options.batch ? "batch " + std::to_string(options.batch)
                                   : "dim " + join(options.dims, " --dim ");
  if (options.batch || !options.dims.empty())
    if (Error e = checkBatches(symbols, batches, binding.values))
      return ps::createFlagError(flag, ": " + toString(std::move(e)));
  for (const InputDim &dim : batches.list(symbols))
    binding.batchSymbols.insert(getSymbol(dim.size->expression));
  if (options.batchFactor != 1)
    if (Error e = multiplyBatch(symbols, binding.batchSymbols, options.batchFactor, binding.values))
      return std::move(e);
  return binding;
}

Expected<int64_t> SizeBinding::evaluateExpression(StringRef expression) const {
  std::string missing;
  std::optional<int64_t> value =
      ExpressionParser(expression, [&](StringRef name) -> std::optional<int64_t> {
        auto it = values.find(name.str());
        if (it != values.end())
          return it->second;
        missing = name.str();
        return std::nullopt;
      }).parse();
  if (value)
    return *value;
  if (!missing.empty())
    return createStringError(
        "a size depends on the symbol " + missing +
        ", which has no value before the program runs; data-dependent shapes are not supported");
  return createStringError("a size is the expression " + expression + ", which is not supported");
}

Expected<int64_t> SizeBinding::evaluate(const Size &size, const Graph &graph) const {
  if (!size.expression.empty())
    return evaluateExpression(size.expression);
  if (size.valueName.empty())
    return size.value;
  auto it = graph.sizes.find(size.valueName);
  if (it == graph.sizes.end())
    return createStringError("the value '" + size.valueName +
                             "' is used as a size but never defined");
  return evaluate(it->second, graph);
}

bool SizeBinding::dependsOnBatch(const Size &size, const Graph &graph) const {
  if (auto it = graph.sizes.find(size.valueName); it != graph.sizes.end())
    return dependsOnBatch(it->second, graph);
  bool depends = false;
  (void)ExpressionParser(size.expression, [&](StringRef name) -> std::optional<int64_t> {
    depends |= batchSymbols.contains(name.str());
    return 2; // gives every expression a value
  }).parse();
  return depends;
}

bool SizeBinding::isMultipleOfBatch(const Size &size, const Graph &graph) const {
  if (auto it = graph.sizes.find(size.valueName); it != graph.sizes.end())
    return isMultipleOfBatch(it->second, graph);
  auto evaluateFor = [&](int64_t batch) {
    return ExpressionParser(size.expression,
                            [&](StringRef name) -> std::optional<int64_t> {
                              return batchSymbols.contains(name.str()) ? batch : 7;
                            })
        .parse();
  };
  std::optional<int64_t> once = evaluateFor(60), twice = evaluateFor(120);
  return once && twice && *twice == 2 * *once;
}

Expected<SmallVector<int64_t>> SizeBinding::evaluate(ArrayRef<Size> sizes,
                                                     const Graph &graph) const {
  SmallVector<int64_t> out;
  for (const Size &size : sizes) {
    Expected<int64_t> value = evaluate(size, graph);
    if (!value)
      return value.takeError();
    out.push_back(*value);
  }
  return out;
}

} // namespace parashard::import
