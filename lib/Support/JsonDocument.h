// A JSON document of many megabytes, read as it stands: values are places in the text.
#ifndef PARASHARD_LIB_SUPPORT_JSONDOCUMENT_H
#define PARASHARD_LIB_SUPPORT_JSONDOCUMENT_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace parashard {
class JsonDocument;

/// A value of a document that must outlive it. What is asked for and is not there, or is of another
/// kind, is nullopt.
class JsonValue {
public:
  JsonValue() = default; ///< of no kind
  bool isNull() const { return getText() == "null"; }
  bool isObject() const { return getText().starts_with("{"); }
  bool isArray() const { return getText().starts_with("["); }
  std::optional<bool> getAsBoolean() const;
  std::optional<int64_t> getAsInteger() const;
  std::optional<double> getAsNumber() const;
  std::optional<std::string> getAsString() const;
  std::optional<JsonValue> getAsObject() const;
  std::optional<JsonValue> getAsArray() const;

  /// For messages: the text of what holds no others, else its kind.
  std::string describe() const;

  /// An array's elements; none of anything else.
  std::vector<JsonValue> getElements() const;
  /// An object's members in order; none of anything else.
  std::vector<std::pair<std::string, JsonValue>> getMembers() const;

  /// An object's member.
  std::optional<JsonValue> get(llvm::StringRef key) const;
  std::optional<bool> getBoolean(llvm::StringRef key) const;
  std::optional<int64_t> getInteger(llvm::StringRef key) const;
  std::optional<std::string> getString(llvm::StringRef key) const;
  std::optional<JsonValue> getObject(llvm::StringRef key) const;
  std::optional<JsonValue> getArray(llvm::StringRef key) const;

private:
  friend class JsonDocument;
  JsonValue(const JsonDocument *document, unsigned place) : document(document), place(place) {}
  llvm::StringRef getText() const;
  void forEachMember(llvm::function_ref<void(llvm::StringRef key, JsonValue value)> visit) const;

  const JsonDocument *document = nullptr;
  unsigned place = 0;
};

/// Takes time and memory in proportion to the text's size, where `llvm::json::Value` takes 4 KB for
/// each small object and copies an array whenever it grows. Single values are read by LLVM.
class JsonDocument {
public:
  /// The error is the one of `llvm::json::parse`. Further errors: nesting deeper than 512 brackets,
  /// a key that stands twice in an object, an integer beyond 64 bits, a number beyond a double, and
  /// a byte order mark. `text` must outlive the document.
  static llvm::Expected<JsonDocument> parse(llvm::StringRef text);
  JsonValue getRoot() const { return {this, 0}; }

private:
  friend class JsonValue;
  friend class JsonScanner;
  /// In the order of the text: a container before what it holds, a key before its value.
  struct Place {
    llvm::StringRef text; ///< of a container: from its opening bracket
    unsigned end = 0;     ///< the place after all that it holds
  };
  std::vector<Place> places;
};

} // namespace parashard

#endif
