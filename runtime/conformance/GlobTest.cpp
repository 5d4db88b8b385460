// Tests the glob patterns for names that flags and policies use.
#include "shared/Globs.h"
#include <gtest/gtest.h>
#include <string>

using parashard::matchesGlob;

TEST(Globs, StarsAndQuestionMarks) {
  EXPECT_TRUE(matchesGlob("*", ""));
  EXPECT_TRUE(matchesGlob("*.bias", "layers.0.bias"));
  EXPECT_TRUE(matchesGlob("layers.?.*", "layers.0.bias"));
  EXPECT_TRUE(matchesGlob("*a*b", "aabab"));
  EXPECT_FALSE(matchesGlob("layers.?.*", "layers.10.bias"));
  EXPECT_FALSE(matchesGlob("bias", "layers.0.bias"));
  EXPECT_FALSE(matchesGlob("", "a"));
  EXPECT_FALSE(matchesGlob("ab?", "ab"));
}

TEST(Globs, Sets) {
  EXPECT_TRUE(matchesGlob("layers.[0-3].*", "layers.2.bias"));
  EXPECT_FALSE(matchesGlob("layers.[0-3].*", "layers.4.bias"));
  EXPECT_TRUE(matchesGlob("layers.[!0-3].*", "layers.4.bias"));
  EXPECT_FALSE(matchesGlob("layers.[^0-3].*", "layers.3.bias"));
  EXPECT_TRUE(matchesGlob("*[wb]", "a.b.w"));
  EXPECT_TRUE(matchesGlob("[]a]", "]"));
  EXPECT_TRUE(matchesGlob("[a-]", "-"));
}

TEST(Globs, AnUnclosedBracketIsACharacter) {
  EXPECT_TRUE(matchesGlob("a[0", "a[0"));
  EXPECT_FALSE(matchesGlob("a[0", "a0"));
  EXPECT_TRUE(matchesGlob("[", "["));
}

TEST(Globs, ManyStarsEnd) {
  std::string glob, name(2000, 'a');
  for (int i = 0; i < 1000; ++i)
    glob += "*a";
  EXPECT_TRUE(matchesGlob(glob, name));
  EXPECT_FALSE(matchesGlob(glob + "b", name));
}
