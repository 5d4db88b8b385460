// Reads documents with `parseLargeJson` and with LLVM's own parser: values and errors are the same.
#include "lib/Import/Pt2/LargeJson.h"
#include "gtest/gtest.h"

using namespace llvm;

static std::string describe(Expected<json::Value> value) {
  if (!value)
    return "error: " + toString(value.takeError());
  std::string text;
  raw_string_ostream(text) << *value;
  return text;
}

static void compare(StringRef text) {
  EXPECT_EQ(describe(parashard::import::parseLargeJson(text)), describe(json::parse(text)));
}

/// An array of objects with every kind of value in them, brackets and quotes in strings too.
static std::string makeDocument() {
  std::string text = "{\"nodes\" : [";
  for (int i = 0; i < 100; ++i)
    text += (i ? ",\n" : "\n") + std::string("{\"name\": \"n\\\"],{:\\\\\", \"in\": [") +
            std::to_string(i) + ", 1.5e-3, -2, true, false, null, []], \"o\": {}}";
  text += "], \"long\": \"" + std::string(5000, 'x') + "]]}{[" + "\", \"\\u006eame\": [[[" +
          std::string(2000, ' ') + "1]]]}\n";
  return text;
}

TEST(LargeJson, GoodDocument) {
  std::string document = makeDocument();
  EXPECT_TRUE(StringRef(describe(json::parse(document))).starts_with("{"));
  compare(document);
}

TEST(LargeJson, CutShort) {
  std::string document = makeDocument();
  for (size_t length = 0; length < document.size(); length += 31)
    compare(StringRef(document).take_front(length));
}

TEST(LargeJson, DamagedAnywhere) {
  std::string document = makeDocument();
  for (char c : StringRef("[]{},:\"\\x"))
    for (size_t at = 0; at < document.size(); at += 173) {
      std::string damaged = document;
      damaged[at] = c;
      compare(damaged);
    }
}

TEST(LargeJson, OddForms) {
  std::string space(3000, ' ');
  compare("{\"a\",\"b\"," + space + "\"c\",\"d\"}");
  compare("{1: 2," + space + "3: 4}");
  compare("[1,," + space + "2]");
  compare("[1," + space + "]");
  compare("[" + space + "]");
  compare("{" + space + "}");
  compare("{\"a\": 1," + space + "\"a\": 2}");
  compare("[1]" + space + "[2]");
  compare("[{" + space + "]}");
}

TEST(LargeJson, DeeplyNested) {
  EXPECT_EQ(
      describe(parashard::import::parseLargeJson(std::string(200, '[') + std::string(200, ']')))
          .substr(0, 2),
      "[[");
  std::string deep(3'000'000, '[');
  EXPECT_TRUE(StringRef(describe(parashard::import::parseLargeJson(deep))).contains("nested"));
  EXPECT_TRUE(
      StringRef(describe(parashard::import::parseLargeJson("{\"a\":" + deep))).contains("nested"));
}
