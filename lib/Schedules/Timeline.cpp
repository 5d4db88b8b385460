// Draws a timeline as SVG.
#include "lib/Schedules/Timeline.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace parashard::schedules {
namespace {

constexpr double kLeft = 64, kRight = 16, kTop = 56, kRow = 28, kBox = 22, kCurve = 44, kGap = 40;
constexpr double kMinBox = 15; ///< pixels, wide enough for a number
constexpr double kMinWidth = 900, kMaxWidth = 6000;

constexpr StringLiteral kStyle = R"(<style>
  text { font: 11px system-ui, sans-serif; fill: #1c2430; }
  .paper { fill: #ffffff; } .rail { fill: #eef0f3; } .grid { stroke: #c9ced6; stroke-width: 1; }
  .F { fill: #8db9e8; } .B { fill: #7cc4a4; } .I { fill: #7cc4a4; } .W { fill: #f0c36d; }
  .later { filter: brightness(0.82); } .number { text-anchor: middle; fill: #10202f; }
  .held { fill: #b59ad6; fill-opacity: 0.45; stroke: #7f5fb0; stroke-width: 1; }
  .title { font-size: 15px; font-weight: 600; } .end { text-anchor: end; }
  @media (prefers-color-scheme: dark) {
    text { fill: #d9dee6; } .paper { fill: #14181e; } .rail { fill: #222933; } .grid { stroke: #3a4452; }
    .F { fill: #4f86c0; } .B { fill: #3f9a76; } .I { fill: #3f9a76; } .W { fill: #b98a32; }
    .number { fill: #f2f5f9; } .held { fill: #8d6fc0; stroke: #b59ad6; }
  }
</style>
)";

std::string escape(StringRef text) {
  std::string out;
  raw_string_ostream os(out);
  printHTMLEscaped(text, os);
  return out;
}

std::string describeBytes(double bytes) {
  static constexpr const char *kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  unsigned unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit)
    bytes /= 1000;
  return formatv("{0:f1} {1}", bytes, kUnits[unit]).str();
}

class Picture {
public:
  Picture(const Replay &replay, const TimelineOptions &options, raw_ostream &os)
      : replay(replay), options(options), os(os) {
    double shortest = replay.makespan;
    for (const std::vector<Span> &row : replay.rows)
      for (const Span &span : row)
        if (span.end > span.begin)
          shortest = std::min(shortest, span.end - span.begin);
    double wanted = shortest > 0 ? kMinBox * replay.makespan / shortest : 0;
    scale = replay.makespan > 0 ? std::clamp(wanted, kMinWidth, kMaxWidth) / replay.makespan : 1;
  }

  void draw() {
    size_t ranks = replay.rows.size();
    double width = kLeft + getX(replay.makespan) - getX(0) + kRight;
    double curves = kTop + double(ranks) * kRow + kGap;
    double height = curves + double(ranks) * kCurve + 24;
    os << formatv("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:f0}\" height=\"{1:f0}\" "
                  "viewBox=\"0 0 {0:f0} {1:f0}\" role=\"img\">\n",
                  width, height)
       << "<title>" << escape(options.title) << "</title>\n"
       << kStyle
       << formatv("<rect class=\"paper\" width=\"{0:f0}\" height=\"{1:f0}\"/>\n", width, height);
    drawHead();
    for (auto [rank, row] : enumerate(replay.rows))
      drawRow(kTop + double(rank) * kRow, int64_t(rank), row);
    text(kLeft, curves - 12, "", options.liveBytes.empty() ? "micro-batches held" : "bytes held");
    double most = 0;
    for (size_t rank = 0; rank < ranks; ++rank)
      most = std::max(most, getPeakHeld(replay.rows[rank], getSizes(rank)));
    for (size_t rank = 0; rank < ranks; ++rank)
      drawCurve(curves + double(rank) * kCurve, rank, most);
    os << "</svg>\n";
  }

private:
  double getX(double time) const { return kLeft + time * scale; }

  void text(double x, double y, StringRef kind, const Twine &content) {
    os << formatv("<text x=\"{0:f1}\" y=\"{1:f1}\"", x, y);
    if (!kind.empty())
      os << " class=\"" << kind << "\"";
    os << ">" << escape(content.str()) << "</text>\n";
  }

  void drawHead() {
    text(kLeft, 20, "title", options.title);
    std::string unit = options.unit.empty() ? "" : " " + options.unit;
    text(kLeft, 38, "",
         formatv("{0:f2}{1} in total, {2:f1} % idle (pipeline bubble)", replay.makespan, unit,
                 100 * replay.bubble)
             .str());
    double x = kLeft + 330;
    for (auto [kind, name] :
         {std::pair("F", "forward"), {"B", "backward"}, {"W", "weight gradient"}}) {
      os << formatv("<rect class=\"{0}\" x=\"{1:f1}\" y=\"28\" width=\"12\" height=\"12\"/>\n",
                    kind, x);
      text(x + 17, 38, "", name);
      x += 90;
    }
  }

  void drawRow(double y, int64_t rank, ArrayRef<Span> row) {
    text(kLeft - 8, y + kBox * 0.7, "end", "pp " + Twine(rank));
    os << formatv(
        "<rect class=\"rail\" x=\"{0:f1}\" y=\"{1:f1}\" width=\"{2:f1}\" height=\"{3:f0}\"/>\n",
        getX(0), y, replay.makespan * scale, kBox);
    for (const Span &span : row)
      drawTask(y, span);
  }

  void drawTask(double y, const Span &span) {
    std::string name = describeTask(span.task);
    double x = getX(span.begin), width = (span.end - span.begin) * scale;
    os << formatv(
        "<rect class=\"{0}{1}\" x=\"{2:f2}\" y=\"{3:f1}\" width=\"{4:f2}\" height=\"{5:f0}\">"
        "<title>{6}: {7:f2} to {8:f2}</title></rect>\n",
        name.front(), span.task.chunk % 2 ? " later" : "", x, y, std::max(width - 0.6, 0.4), kBox,
        name, span.begin, span.end);
    std::string number = std::to_string(span.task.microBatch);
    if (width >= 7.0 * double(number.size()))
      text(x + width / 2, y + kBox * 0.7, "number", number);
  }

  ArrayRef<int64_t> getSizes(size_t rank) const {
    return options.liveBytes.empty() ? ArrayRef<int64_t>() : ArrayRef(options.liveBytes[rank]);
  }

  void drawCurve(double y, size_t rank, double most) {
    double bottom = y + kCurve - 10, room = kCurve - 14, held = 0;
    double peak = getPeakHeld(replay.rows[rank], getSizes(rank));
    os << formatv("<path class=\"held\" d=\"M{0:f1} {1:f1}", getX(0), bottom);
    auto height = [&](double value) { return most > 0 ? bottom - room * value / most : bottom; };
    for (auto [time, next] : traceHeld(replay.rows[rank], getSizes(rank))) {
      os << formatv(" L{0:f1} {1:f1} L{0:f1} {2:f1}", getX(time), height(held), height(next));
      held = next;
    }
    os << formatv(" L{0:f1} {1:f1} Z\"/>\n", getX(replay.makespan), bottom);
    os << formatv(
        "<line class=\"grid\" x1=\"{0:f1}\" y1=\"{1:f1}\" x2=\"{2:f1}\" y2=\"{1:f1}\"/>\n", getX(0),
        bottom, getX(replay.makespan));
    text(kLeft - 8, bottom - 4, "end",
         options.liveBytes.empty() ? formatv("{0:f0}", peak).str() : describeBytes(peak));
  }

  const Replay &replay;
  const TimelineOptions &options;
  raw_ostream &os;
  double scale;
};

} // namespace

void writeTimeline(const Replay &replay, const TimelineOptions &options, raw_ostream &os) {
  Picture(replay, options, os).draw();
}

} // namespace parashard::schedules
