// Finds the values of a JSON text and changes one of them.
#include "fuzz/JsonMutator.h"
#include <algorithm>
#include <cctype>
#include <vector>

namespace fuzz {
namespace {

struct Span {
  size_t begin, end;
  bool isKey = false;
};

bool isWord(char c) { return std::isalnum((unsigned char)c) || c == '-' || c == '.' || c == '+'; }

/// Returns all values and keys. An unclosed object or array ends at the end of the text.
std::vector<Span> findValues(const std::string &text) {
  std::vector<Span> values;
  std::vector<size_t> open;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    char c = text[at++];
    if (c == '{' || c == '[') {
      open.push_back(values.size());
      values.push_back({begin, text.size()});
    } else if ((c == '}' || c == ']') && !open.empty()) {
      values[open.back()].end = at;
      open.pop_back();
    } else if (c == '"') {
      while (at < text.size() && text[at] != '"')
        at += text[at] == '\\' ? 2 : 1;
      at = std::min(at + 1, text.size());
      size_t next = text.find_first_not_of(" \t\r\n", at);
      values.push_back({begin, at, next != std::string::npos && text[next] == ':'});
    } else if (isWord(c)) {
      while (at < text.size() && isWord(text[at]))
        ++at;
      values.push_back({begin, at});
    }
  }
  return values;
}

const char *const kOdd[] = {"0",
                            "1",
                            "-1",
                            "2",
                            "3",
                            "8",
                            "1.5",
                            "-0.0",
                            "1e400",
                            "2147483647",
                            "2147483648",
                            "-2147483649",
                            "4294967296",
                            "4611686018427387904",
                            "9223372036854775807",
                            "-9223372036854775808",
                            "18446744073709551615",
                            "1e19",
                            "null",
                            "true",
                            "false",
                            "\"\"",
                            "\"NaN\"",
                            "\"../outside\"",
                            "[]",
                            "{}",
                            "[0]",
                            "[1,2,3]",
                            "[[],[[]]]",
                            "{\"a\":1}"};

size_t pick(Random &random, size_t count) { return random() % count; }

/// Removes a value with its key and one comma: the comma before the value, or after the first
/// value.
void drop(std::string &text, const std::vector<Span> &values, size_t index) {
  Span span = values[index];
  if (index > 0 && values[index - 1].isKey)
    span.begin = values[index - 1].begin;
  size_t before = text.find_last_not_of(" \t\r\n", span.begin ? span.begin - 1 : 0);
  size_t after = text.find_first_not_of(" \t\r\n", span.end);
  if (before != std::string::npos && text[before] == ',')
    span.begin = before;
  else if (after != std::string::npos && text[after] == ',')
    span.end = after + 1;
  text.erase(span.begin, span.end - span.begin);
}

} // namespace

std::string mutateBytes(std::string text, size_t maxSize) {
  size_t size = text.size();
  text.resize(std::max(maxSize, size));
  text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(text.data()), size, text.size()));
  return text;
}

std::string mutateJson(std::string text, Random &random) {
  std::vector<Span> values = findValues(text);
  if (values.empty()) {
    size_t size = text.size() + 16;
    return mutateBytes(std::move(text), size);
  }
  size_t index = pick(random, values.size());
  Span span = values[index], other = values[pick(random, values.size())];
  std::string old = text.substr(span.begin, span.end - span.begin);
  std::string another = text.substr(other.begin, other.end - other.begin);
  switch (pick(random, 8)) {
  case 0:
  case 1:
    text.replace(span.begin, old.size(), kOdd[pick(random, std::size(kOdd))]);
    break;
  case 2:
    if (span.isKey == other.isKey)
      text.replace(span.begin, old.size(), another);
    break;
  case 3:
    drop(text, values, index);
    break;
  case 4:
    if (index > 0 && values[index - 1].isKey)
      text.insert(values[index - 1].begin,
                  text.substr(values[index - 1].begin, span.end - values[index - 1].begin) + ",");
    else if (!span.isKey)
      text.insert(span.begin, (pick(random, 2) ? old : another) + ",");
    break;
  case 5: {
    size_t depth = pick(random, 64) == 0 ? 3000 : 1 + pick(random, 3);
    bool isList = pick(random, 2);
    std::string front, back;
    for (size_t i = 0; i < depth; ++i)
      front += isList ? "[" : "{\"a\":", back += isList ? "]" : "}";
    text.replace(span.begin, old.size(), front + old + back);
    break;
  }
  default: {
    bool quoted = old.size() >= 2 && old.front() == '"' && old.back() == '"';
    std::string inner = quoted ? old.substr(1, old.size() - 2) : old;
    inner = mutateBytes(inner, inner.size() + 8);
    text.replace(span.begin, old.size(), quoted ? "\"" + inner + "\"" : inner);
  }
  }
  return text;
}

size_t mutateInput(uint8_t *data, size_t size, size_t maxSize, unsigned seed,
                   const std::function<std::string(std::string, Random &)> &mutate) {
  Random random(seed);
  std::string text = mutate(std::string(reinterpret_cast<char *>(data), size), random);
  if (text.size() > maxSize)
    return size;
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

} // namespace fuzz
