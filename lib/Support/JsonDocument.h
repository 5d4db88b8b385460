// Declares a parser for large JSON documents. Values refer to the text instead of copying it.
#ifndef PARASHARD_LIB_SUPPORT_JSONDOCUMENT_H
#define PARASHARD_LIB_SUPPORT_JSONDOCUMENT_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <optional>
#include <string>
#include <vector>

namespace parashard::support {
class JsonDocument;

/// A value of a document. The document must outlive the value. Accessors return nullopt if the
/// requested value is missing or of another kind.
class JsonValue {
public:
  JsonValue() = default; ///< a missing value
  bool isNull() const { return getText() == "null"; }
  bool isObject() const { return getText().starts_with("{"); }
  bool isArray() const { return getText().starts_with("["); }
  std::optional<bool> getAsBoolean() const;
  std::optional<int64_t> getAsInteger() const;
  std::optional<double> getAsNumber() const;
  std::optional<std::string> getAsString() const;
  std::optional<JsonValue> getAsObject() const;
  std::optional<JsonValue> getAsArray() const;

  /// Describes the value for messages. Returns "an object", "a list" or "an empty list", or the
  /// text of any other value.
  std::string describe() const;

  /// Returns the value as JSON text without spaces between tokens. Members keep their order.
  std::string format() const;

  /// Returns the elements of an array, or an empty list for other kinds.
  std::vector<JsonValue> getElements() const;
  /// Returns the members of an object in the order of the text, or an empty list for other kinds.
  std::vector<std::pair<std::string, JsonValue>> getMembers() const;

  /// Returns the member of an object with this key.
  std::optional<JsonValue> get(llvm::StringRef key) const;
  std::optional<bool> getBoolean(llvm::StringRef key) const;
  std::optional<int64_t> getInteger(llvm::StringRef key) const;
  std::optional<std::string> getString(llvm::StringRef key) const;
  std::optional<JsonValue> getObject(llvm::StringRef key) const;
  std::optional<JsonValue> getArray(llvm::StringRef key) const;

private:
  friend class JsonDocument;
  JsonValue(const JsonDocument *document, unsigned index) : document(document), index(index) {}
  llvm::StringRef getText() const;
  void forEachMember(llvm::function_ref<void(llvm::StringRef key, JsonValue value)> visit) const;

  const JsonDocument *document = nullptr;
  unsigned index = 0;
};

/// A parsed document. Parsing takes time and memory proportional to the size of the text. By
/// contrast, `llvm::json::Value` takes 4 KB per small object and copies arrays when they grow.
class JsonDocument {
public:
  /// Parses `text`, which must outlive the document. Accepts the syntax of `llvm::json::parse`,
  /// except for nesting deeper than 512 brackets, a repeated key in an object, an integer outside
  /// int64, a float outside the range of double, and a byte order mark. Errors do not name the
  /// file. A syntax error has the line, the column (both from 1), and what is expected there.
  static llvm::Expected<JsonDocument> parse(llvm::StringRef text);
  JsonValue getRoot() const { return {this, 0}; }

private:
  friend class JsonValue;
  friend class JsonScanner;
  /// A value, or the key of a member. Entries have the order of the text: a container precedes its
  /// contents, and a key precedes its value.
  struct Entry {
    llvm::StringRef text; ///< for a container: only its opening bracket
    unsigned end = 0;     ///< index of the first entry after the value's contents
  };
  std::vector<Entry> values;
};

/// Parses a small document into a value that owns its contents. Fails like `JsonDocument::parse`.
llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text);

} // namespace parashard::support

#endif
