// Cuts large arrays and objects into their elements, which are parsed one by one.
#include "lib/Import/Pt2/LargeJson.h"

using namespace llvm;

namespace parashard::import {
namespace {
/// Below this many bytes, the copies cost less than the cutting.
constexpr size_t kSmall = 1024;
/// Deeper brackets than this are left to the parser.
constexpr unsigned kMaxDepth = 16;

/// Nested subgraphs have about 10 brackets each.
constexpr unsigned kDeepest = 512;
constexpr StringLiteral kSpace = " \t\r\n";

/// Skips a string literal; `text[at]` is its opening quote.
size_t skipString(StringRef text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\')
      ++at;
  return std::min(at + 1, text.size());
}

/// Whether the parser, which calls itself for each bracket, has stack enough.
bool isShallow(StringRef text) {
  unsigned depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '"')
      at = skipString(text, at) - 1;
    else if (c == '[' || c == '{')
      ++depth;
    else if ((c == ']' || c == '}') && depth > 0)
      --depth;
    if (depth > kDeepest)
      return false;
  }
  return true;
}

/// The texts between the outer brackets of `text`, cut at the commas that stand in no inner bracket
/// and no string.
SmallVector<StringRef> cutElements(StringRef text) {
  SmallVector<StringRef> parts;
  text = text.drop_front().drop_back();
  size_t begin = 0, at = 0;
  unsigned depth = 0;
  while (at < text.size()) {
    char c = text[at];
    if (c == '"') {
      at = skipString(text, at);
      continue;
    }
    if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    else if (depth == 0 && c == ',') {
      parts.push_back(text.slice(begin, at));
      begin = at + 1;
    }
    ++at;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::optional<json::Value> parse(StringRef text, unsigned depth);

std::optional<json::Value> parseArray(ArrayRef<StringRef> elements, unsigned depth) {
  json::Array array;
  array.reserve(elements.size());
  for (StringRef element : elements) {
    std::optional<json::Value> value = parse(element, depth);
    if (!value)
      return std::nullopt;
    array.push_back(std::move(*value));
  }
  return std::move(array);
}

std::optional<json::Value> parseObject(ArrayRef<StringRef> entries, unsigned depth) {
  json::Object object;
  for (StringRef entry : entries) {
    entry = entry.ltrim(kSpace);
    if (!entry.starts_with("\""))
      return std::nullopt;
    size_t keyEnd = skipString(entry, 0);
    std::optional<json::Value> key = parse(entry.take_front(keyEnd), depth);
    StringRef rest = entry.substr(keyEnd).ltrim(kSpace);
    if (!key || !rest.consume_front(":"))
      return std::nullopt;
    std::optional<json::Value> value = parse(rest, depth);
    if (!value)
      return std::nullopt;
    object[key->getAsString()->str()] = std::move(*value);
  }
  return std::move(object);
}

/// Nullopt where the text is not as it should be: the parser then says what is wrong.
std::optional<json::Value> parse(StringRef text, unsigned depth) {
  text = text.trim(kSpace);
  if (text.size() >= kSmall && depth < kMaxDepth) {
    if (text.starts_with("[") && text.ends_with("]"))
      return parseArray(cutElements(text), depth + 1);
    if (text.starts_with("{") && text.ends_with("}"))
      return parseObject(cutElements(text), depth + 1);
  }
  Expected<json::Value> value = json::parse(text);
  if (value)
    return std::move(*value);
  consumeError(value.takeError());
  return std::nullopt;
}
} // namespace

Expected<json::Value> parseLargeJson(StringRef text) {
  if (!isShallow(text))
    return createStringError("its brackets are nested deeper than %u", kDeepest);
  if (std::optional<json::Value> value = parse(text, 0))
    return std::move(*value);
  return json::parse(text);
}

} // namespace parashard::import
