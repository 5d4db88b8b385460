// Tests the reading and printing of quantities.
#include "lib/Costs/Quantity.h"
#include <gtest/gtest.h>

using namespace parashard::costs;

TEST(Quantity, PrefixesScaleTheUnit) {
  EXPECT_EQ(parseQuantity("80GB", Unit::Bytes), 80e9);
  EXPECT_EQ(parseQuantity("16GiB", Unit::Bytes), 0x1p34);
  EXPECT_EQ(parseQuantity("3.35TB/s", Unit::BytesPerSecond), 3.35e12);
  EXPECT_EQ(parseQuantity("989 TFLOP/s", Unit::FlopsPerSecond), 989e12);
  EXPECT_EQ(parseQuantity("1.5e3FLOP/s", Unit::FlopsPerSecond), 1500);
  EXPECT_DOUBLE_EQ(parseQuantity("4us", Unit::Seconds).value(), 4e-6);
  EXPECT_EQ(parseQuantity("0s", Unit::Seconds), 0);
}

TEST(Quantity, OtherTextsAreRefused) {
  for (const char *text :
       {"", "80", "GB", "80GB/s", "80XB", "-1B", "1e999B", "4mB", "1..2B", "80GBB"})
    EXPECT_EQ(parseQuantity(text, Unit::Bytes), std::nullopt) << text;
  for (const char *text : {"4", "4ks", "4u", "four s"})
    EXPECT_EQ(parseQuantity(text, Unit::Seconds), std::nullopt) << text;
}

TEST(Quantity, ExamplesAreRead) {
  for (Unit unit : {Unit::Bytes, Unit::BytesPerSecond, Unit::FlopsPerSecond, Unit::Seconds})
    EXPECT_TRUE(parseQuantity(getExample(unit).trim('"'), unit)) << getExample(unit).str();
}

TEST(Quantity, SecondsHaveThreeDigits) {
  EXPECT_EQ(printSeconds(4e-6), "4.00 us");
  EXPECT_EQ(printSeconds(0.0123), "12.3 ms");
  EXPECT_EQ(printSeconds(0.9996), "1.00 s");
  EXPECT_EQ(printSeconds(123), "123 s");
}
