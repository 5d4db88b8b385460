// Indexes the values of a JSON text in one pass.
#include "lib/Support/JsonDocument.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"
#include <cmath>

using namespace llvm;

namespace parashard::support {
namespace {
/// Maximum depth of nested brackets. Each nested subgraph of a model adds about 10 levels. Code
/// that reads a document recurses once per level.
constexpr unsigned kMaxDepth = 512;

std::optional<json::Value> parseAlone(StringRef text) {
  Expected<json::Value> value = json::parse(text);
  if (value)
    return std::move(*value);
  consumeError(value.takeError());
  return std::nullopt;
}

std::string readString(StringRef text) {
  if (!text.contains('\\'))
    return text.drop_front().drop_back().str();
  std::optional<json::Value> value = parseAlone(text);
  return value->getAsString()->str();
}

bool isWordCharacter(char c) { return isAlnum(c) || c == '+' || c == '-' || c == '.'; }
} // namespace

//===----------------------------------------------------------------------===//
// Finding values
//===----------------------------------------------------------------------===//

class JsonScanner {
public:
  explicit JsonScanner(StringRef text) : text(text) {}

  /// Scans the text. If the text is not valid, sets `error` and returns false.
  bool run() {
    constexpr StringLiteral kByteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(kByteOrderMark))
      return fail("starts with a byte order mark (bytes EF BB BF); save the file as UTF-8 without "
                  "one");
    if (text.trim(" \t\r\n").empty())
      return fail("the file is empty; expected JSON");
    if (size_t bad; !json::isUTF8(text, &bad))
      return fail("expected JSON, but byte " + Twine(bad) + " is not UTF-8 text");
    if (!scanValue(0))
      return false;
    skipSpace();
    return at == text.size() || failToFind("the end of the text");
  }

  std::string error;
  JsonDocument document;

private:
  char peek() const { return at < text.size() ? text[at] : '\0'; }
  void skipSpace() {
    while (at < text.size() && StringRef(" \t\r\n").contains(text[at]))
      ++at;
  }
  bool take(char c) {
    skipSpace();
    if (peek() != c)
      return false;
    ++at;
    return true;
  }

  bool fail(const Twine &message) { return error = message.str(), false; }

  /// Fails with a message that begins with the line and column of an offset.
  bool failAt(size_t offset, const Twine &message) {
    auto [line, column] = findLocation(offset);
    return fail("line " + Twine(line) + ", column " + Twine(column) + ": " + message);
  }

  /// Fails because the next character is not the expected one. Example: for `{"a": 1,}`,
  /// "line 1, column 9: expected a key in double quotes, but found '}'".
  bool failToFind(const Twine &expected) {
    char c = peek();
    StringRef found = text.substr(at, 1);
    if (at == text.size())
      return failAt(at, "expected " + expected + ", but the text ends");
    if (!isPrint(c))
      return failAt(at, "expected " + expected + ", but found a character that is not ASCII text");
    const char *quote = c == '\'' ? "\"" : "'";
    return failAt(at, "expected " + expected + ", but found " + quote + found + quote);
  }

  /// Returns the line and the column of an offset, both counted from 1.
  std::pair<size_t, size_t> findLocation(size_t offset) const {
    StringRef before = text.take_front(offset);
    return {before.count('\n') + 1, before.size() - (before.rfind('\n') + 1) + 1};
  }

  /// Returns the line and column of a part of the text. Example: "2:1".
  std::string describeLocation(StringRef part) const {
    auto [line, column] = findLocation(part.data() - text.data());
    return std::to_string(line) + ":" + std::to_string(column);
  }

  /// Fails if a key occurs twice in an object, since readers would lose one of the values.
  bool checkKeys(unsigned object) {
    constexpr size_t kFew = 16; // up to this many keys are compared one by one, without copies
    std::vector<StringRef> few;
    StringSet<> many;
    for (unsigned key = object + 1; key < document.values.size();
         key = document.values[key + 1].end) {
      StringRef text = document.values[key].text;
      std::string escaped = text.contains('\\') ? readString(text) : "";
      StringRef name = text.contains('\\') ? StringRef(escaped) : text.drop_front().drop_back();
      bool isNew = many.empty() ? !is_contained(few, name) : !many.contains(name);
      if (!isNew)
        return fail("\"" + name + "\" is given twice in one object (the second time at " +
                    describeLocation(text) + "); remove one");
      if (many.empty() && few.size() < kFew && escaped.empty()) {
        few.push_back(name);
        continue;
      }
      for (StringRef earlier : few)
        many.insert(earlier);
      few.clear();
      many.insert(name);
    }
    return true;
  }

  /// Fails if a number is not valid or does not fit its type: an integer outside int64, or a float
  /// outside the range of double.
  bool checkNumber(StringRef word) {
    int64_t integer;
    bool isInteger =
        word.find_if([](char c) { return !isDigit(c) && c != '-'; }) == StringRef::npos;
    std::optional<json::Value> value = parseAlone(word);
    if (!value)
      return failAt(word.data() - text.data(), "expected a value, but found '" + word + "'");
    std::optional<double> number = value->getAsNumber();
    if (number && (isInteger ? word.getAsInteger(10, integer) : !std::isfinite(*number)))
      return fail("the number " + word + " at " + describeLocation(word) + " is out of range");
    return true;
  }

  bool add(StringRef value) {
    document.values.push_back({value, unsigned(document.values.size() + 1)});
    return true;
  }

  /// Scans a string. Escapes and unescaped control characters are checked by LLVM's parser.
  bool scanString() {
    size_t begin = at;
    bool isPlain = true;
    for (++at; at < text.size() && text[at] != '"'; ++at) {
      isPlain &= text[at] != '\\' && (unsigned char)text[at] >= 0x20;
      if (text[at] == '\\')
        ++at;
    }
    if (at >= text.size())
      return failAt(begin, "the closing '\"' of this string is missing");
    ++at;
    StringRef string = text.slice(begin, at);
    if (!isPlain && !parseAlone(string))
      return failAt(begin, "this string has a line break, another control character or an invalid "
                           "escape; write \\n for a line break, and \\\\ for a backslash");
    return add(string);
  }

  /// Scans a number, true, false or null.
  bool scanWord() {
    size_t begin = at;
    while (at < text.size() && isWordCharacter(text[at]))
      ++at;
    StringRef word = text.slice(begin, at);
    int64_t integer;
    bool isSmall = word.size() < 10 && !word.starts_with("+") && !word.getAsInteger(10, integer);
    if (word.empty())
      return failToFind("a value");
    return (isSmall || checkNumber(word)) && add(word);
  }

  bool scanKey() {
    skipSpace();
    if (peek() != '"')
      return failToFind("a key in double quotes");
    return scanString() && (take(':') || failToFind("':' after the key"));
  }

  bool scanContainer(char close, unsigned depth) {
    if (depth > kMaxDepth)
      return fail("has brackets nested deeper than " + Twine(kMaxDepth));
    size_t index = document.values.size();
    add(text.substr(at++, 1));
    if (!take(close)) {
      do
        if ((close == '}' && !scanKey()) || !scanValue(depth))
          return false;
      while (take(','));
      if (!take(close))
        return failToFind(close == '}' ? "',' or '}'" : "',' or ']'");
    }
    document.values[index].end = document.values.size();
    return close != '}' || checkKeys(index);
  }

  bool scanValue(unsigned depth) {
    skipSpace();
    switch (peek()) {
    case '{':
      return scanContainer('}', depth + 1);
    case '[':
      return scanContainer(']', depth + 1);
    case '"':
      return scanString();
    default:
      return scanWord();
    }
  }

  StringRef text;
  size_t at = 0;
};

Expected<JsonDocument> JsonDocument::parse(StringRef text) {
  JsonScanner scanner(text);
  if (!scanner.run())
    return createStringError(scanner.error);
  return std::move(scanner.document);
}

Expected<json::Value> parseJson(StringRef text) {
  Expected<JsonDocument> document = JsonDocument::parse(text);
  if (!document)
    return document.takeError();
  return json::parse(text);
}

//===----------------------------------------------------------------------===//
// Reading values
//===----------------------------------------------------------------------===//

StringRef JsonValue::getText() const { return document ? document->values[index].text : ""; }

std::optional<bool> JsonValue::getAsBoolean() const {
  if (getText() == "true" || getText() == "false")
    return getText() == "true";
  return std::nullopt;
}

std::optional<int64_t> JsonValue::getAsInteger() const {
  int64_t integer;
  if (!getText().getAsInteger(10, integer))
    return integer;
  std::optional<json::Value> value;
  if (!isObject() && !isArray())
    value = parseAlone(getText());
  return value ? value->getAsInteger() : std::nullopt;
}

std::optional<double> JsonValue::getAsNumber() const {
  std::optional<json::Value> value;
  if (!isObject() && !isArray())
    value = parseAlone(getText());
  return value ? value->getAsNumber() : std::nullopt;
}

std::optional<std::string> JsonValue::getAsString() const {
  if (!getText().starts_with("\""))
    return std::nullopt;
  return readString(getText());
}

std::optional<JsonValue> JsonValue::getAsObject() const {
  return isObject() ? std::optional(*this) : std::nullopt;
}

std::optional<JsonValue> JsonValue::getAsArray() const {
  return isArray() ? std::optional(*this) : std::nullopt;
}

std::string JsonValue::describe() const {
  if (isArray())
    return getElements().empty() ? "an empty list" : "a list";
  return isObject() ? "an object" : getText().str();
}

std::string JsonValue::format() const {
  if (!isObject() && !isArray())
    return getText().str();
  std::string text;
  auto separate = [&] { text += text.empty() ? "" : ","; };
  for (JsonValue element : getElements())
    separate(), text += element.format();
  for (const auto &[key, value] : getMembers())
    separate(), text += llvm::formatv("{0}:{1}", llvm::json::Value(key), value.format());
  return isObject() ? "{" + text + "}" : "[" + text + "]";
}

std::vector<JsonValue> JsonValue::getElements() const {
  std::vector<JsonValue> elements;
  if (!isArray())
    return elements;
  unsigned end = document->values[index].end;
  for (unsigned at = index + 1; at < end; at = document->values[at].end)
    elements.push_back({document, at});
  return elements;
}

void JsonValue::forEachMember(function_ref<void(StringRef, JsonValue)> visit) const {
  if (!isObject())
    return;
  unsigned end = document->values[index].end;
  for (unsigned key = index + 1; key < end; key = document->values[key + 1].end) {
    StringRef text = document->values[key].text;
    if (text.contains('\\'))
      visit(readString(text), {document, key + 1});
    else
      visit(text.drop_front().drop_back(), {document, key + 1});
  }
}

std::vector<std::pair<std::string, JsonValue>> JsonValue::getMembers() const {
  std::vector<std::pair<std::string, JsonValue>> members;
  forEachMember([&](StringRef key, JsonValue value) { members.emplace_back(key.str(), value); });
  return members;
}

std::optional<JsonValue> JsonValue::get(StringRef key) const {
  std::optional<JsonValue> found;
  forEachMember([&](StringRef name, JsonValue value) {
    if (name == key)
      found = value;
  });
  return found;
}

std::optional<bool> JsonValue::getBoolean(StringRef key) const {
  std::optional<JsonValue> value = get(key);
  return value ? value->getAsBoolean() : std::nullopt;
}

std::optional<int64_t> JsonValue::getInteger(StringRef key) const {
  std::optional<JsonValue> value = get(key);
  return value ? value->getAsInteger() : std::nullopt;
}

std::optional<std::string> JsonValue::getString(StringRef key) const {
  std::optional<JsonValue> value = get(key);
  return value ? value->getAsString() : std::nullopt;
}

std::optional<JsonValue> JsonValue::getObject(StringRef key) const {
  std::optional<JsonValue> value = get(key);
  return value ? value->getAsObject() : std::nullopt;
}

std::optional<JsonValue> JsonValue::getArray(StringRef key) const {
  std::optional<JsonValue> value = get(key);
  return value ? value->getAsArray() : std::nullopt;
}

} // namespace parashard::support
