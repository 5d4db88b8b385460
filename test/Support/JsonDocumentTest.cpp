// Tests that `JsonDocument` gives the same values as the parser of LLVM, rejects the same texts,
// and says where and why.
#include "lib/Support/JsonDocument.h"
#include "llvm/Support/JSON.h"
#include "gtest/gtest.h"

using namespace llvm;
using parashard::support::JsonDocument;
using parashard::support::JsonValue;

static json::Value convert(JsonValue value) {
  if (value.isObject()) {
    json::Object object;
    for (const auto &[key, member] : value.getMembers()) {
      object[key] = convert(member);
      EXPECT_TRUE(value.get(key));
    }
    return object;
  }
  if (value.isArray()) {
    json::Array array;
    for (JsonValue element : value.getElements())
      array.push_back(convert(element));
    return array;
  }
  if (auto boolean = value.getAsBoolean())
    return *boolean;
  if (auto integer = value.getAsInteger())
    return *integer;
  if (auto number = value.getAsNumber())
    return *number;
  if (auto string = value.getAsString())
    return *string;
  EXPECT_TRUE(value.isNull());
  return nullptr;
}

static std::string describe(Expected<json::Value> value) {
  if (!value)
    return "error: " + toString(value.takeError());
  std::string text;
  raw_string_ostream(text) << *value;
  return text;
}

static std::string read(StringRef text) {
  Expected<JsonDocument> document = JsonDocument::parse(text);
  if (!document)
    return "error: " + toString(document.takeError());
  return describe(convert(document->getRoot()));
}

/// Expects that both parsers give the same value, or that both fail.
static void compare(StringRef text) {
  std::string found = read(text), expected = describe(json::parse(text));
  if (StringRef(expected).starts_with("error: "))
    EXPECT_TRUE(StringRef(found).starts_with("error: ")) << text.str();
  else
    EXPECT_EQ(found, expected);
}

/// Returns a document with every kind of value, and with brackets and quotes in strings.
static std::string makeDocument() {
  std::string text = "{\"nodes\" : [";
  for (int i = 0; i < 40; ++i)
    text += (i ? ",\n" : "\n") + std::string("{\"name\": \"n\\\"],{:\\\\\", \"in\": [") +
            std::to_string(i) + ", 1.5e-3, -2, true, false, null, []], \"o\": {}}";
  text += "], \"long\": \"" + std::string(500, 'x') + "]]}{[" + "\", \"\\u006eame\": [[[" +
          std::string(200, ' ') + "1]]]}\n";
  return text;
}

TEST(JsonDocument, ReadsAValidDocument) {
  std::string document = makeDocument();
  EXPECT_TRUE(StringRef(describe(json::parse(document))).starts_with("{"));
  compare(document);
}

TEST(JsonDocument, ReportsTruncatedDocuments) {
  std::string document = makeDocument();
  for (size_t length = 0; length < document.size(); length += 3)
    compare(StringRef(document).take_front(length));
}

TEST(JsonDocument, ReportsDamagedDocuments) {
  std::string document = makeDocument();
  for (char c : StringRef("[]{},:\"\\x\n\x80 0"))
    for (size_t at = 0; at < document.size(); at += 53) {
      std::string damaged = document;
      damaged[at] = c;
      compare(damaged);
    }
}

TEST(JsonDocument, OddForms) {
  for (StringRef text : {"{\"a\",\"b\",\"c\",\"d\"}",
                         "{1: 2,3: 4}",
                         "[1,,2]",
                         "[1,]",
                         "[ ]",
                         "{ }",
                         "[,]",
                         "{,}",
                         "[1] [2]",
                         "[{ }]",
                         "",
                         " ",
                         "1",
                         "-",
                         "+1",
                         "01",
                         "1.",
                         "9223372036854775807",
                         "-9223372036854775808",
                         "1e3",
                         "2.0",
                         "tru",
                         "nullx",
                         "NaN",
                         "Infinity",
                         "\"\\ud83d\\ude00\"",
                         "\"\\u00\"",
                         "\"a\tb\"",
                         "\"",
                         "\"\\\"",
                         "[1 2]",
                         "{\"a\" 1}",
                         "{\"a\":}",
                         "[\"\\q\"]"})
    compare(text);
}

TEST(JsonDocument, ErrorsNameTheLocationAndWhatIsExpected) {
  for (auto [text, message] : std::initializer_list<std::pair<StringRef, StringRef>>{
           {"", "the file is empty; expected JSON"},
           {" \n", "the file is empty; expected JSON"},
           {"{\"a\": 1,}", "line 1, column 9: expected a key in double quotes, but found '}'"},
           {"[1,\n]", "line 2, column 1: expected a value, but found ']'"},
           {"{a: 1}", "line 1, column 2: expected a key in double quotes, but found 'a'"},
           {"{'a': 1}", "line 1, column 2: expected a key in double quotes, but found \"'\""},
           {"{\"a\": 1\n \"b\": 2}", "line 2, column 2: expected ',' or '}', but found '\"'"},
           {"{\"a\" 1}", "line 1, column 6: expected ':' after the key, but found '1'"},
           {"{\"a\": [1", "line 1, column 9: expected ',' or ']', but the text ends"},
           {"{\"a\": }", "line 1, column 7: expected a value, but found '}'"},
           {"{\"a\": tru}", "line 1, column 7: expected a value, but found 'tru'"},
           {"{} x", "line 1, column 4: expected the end of the text, but found 'x'"},
           {"{\"a", "line 1, column 2: the closing '\"' of this string is missing"},
           {"[\xC3\xA9]",
            "line 1, column 2: expected a value, but found a character that is not ASCII text"},
           {"[\"\\q\"]",
            "line 1, column 2: this string has a line break, another control character or an "
            "invalid escape; write \\n for a line break, and \\\\ for a backslash"},
           {"{\xff}", "expected JSON, but byte 1 is not UTF-8 text"}})
    EXPECT_EQ(read(text), ("error: " + message).str());
}

TEST(JsonDocument, RejectsDuplicateKeys) {
  EXPECT_EQ(read("{\"a\": 1,\n \"a\": 2}"),
            "error: \"a\" is given twice in one object (the second time at 2:2); remove one");
  EXPECT_EQ(read("[{\"n\": 1, \"\\u006e\": 2}]"),
            "error: \"n\" is given twice in one object (the second time at 1:11); remove one");
  std::string text = "{";
  for (int i = 0; i < 100; ++i)
    text += "\"k" + std::to_string(i) + "\": {\"k1\": " + std::to_string(i) + "}, ";
  EXPECT_EQ(read(text + "\"last\": 1}").substr(0, 2), "{\"");
  EXPECT_EQ(read(text + "\"k3\": 1}").substr(0, 28), "error: \"k3\" is given twice i");
}

TEST(JsonDocument, RejectsNumbersOutOfRange) {
  EXPECT_EQ(read("[1,\n9223372036854775808]"),
            "error: the number 9223372036854775808 at 2:1 is out of range");
  EXPECT_EQ(read("{\"a\": -9223372036854775809}"),
            "error: the number -9223372036854775809 at 1:7 is out of range");
  EXPECT_EQ(read("1e400"), "error: the number 1e400 at 1:1 is out of range");
  compare("[1e300, 1e-400, 123456789012]");
}

TEST(JsonDocument, RejectsByteOrderMarks) {
  EXPECT_EQ(read("\xEF\xBB\xBF{}"), "error: starts with a byte order mark (bytes EF BB BF); save "
                                    "the file as UTF-8 without one");
}

TEST(JsonDocument, GettersOfOtherKindsReturnNothing) {
  std::string text = "{\"n\": 1, \"s\": \"x\", \"l\": [1], \"b\": true}";
  JsonDocument document = cantFail(JsonDocument::parse(text));
  JsonValue root = document.getRoot();
  EXPECT_FALSE(root.get("m") || root.getString("n") || root.getInteger("s") || root.getArray("s") ||
               root.getObject("l") || root.getBoolean("n") || root.getInteger("l"));
  EXPECT_EQ(root.getInteger("n"), 1);
  EXPECT_EQ(root.getString("s"), "x");
  EXPECT_EQ(root.getBoolean("b"), true);
  EXPECT_TRUE(root.get("n")->getElements().empty());
}

TEST(JsonDocument, RejectsDeeplyNestedDocuments) {
  EXPECT_EQ(read(std::string(200, '[') + std::string(200, ']')).substr(0, 2), "[[");
  std::string deep(3'000'000, '[');
  EXPECT_TRUE(StringRef(read(deep)).contains("nested"));
  EXPECT_TRUE(StringRef(read("{\"a\":" + deep)).contains("nested"));
}
