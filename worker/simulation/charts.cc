#include "worker/simulation/charts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string_view>
#include <vector>

namespace posthorn::simulation {
namespace {

constexpr double kWidth = 960;
constexpr double kLeft = 70;
constexpr double kRight = 170;  // for the legend
constexpr double kTop = 48;
constexpr double kPanel = 150;
constexpr double kGap = 42;
constexpr std::size_t kMostLines = 12;
constexpr std::size_t kMostPoints = 360;
constexpr std::array<std::string_view, kMostLines> kColours = {"#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd",
                                                               "#8c564b", "#17becf", "#bcbd22", "#e377c2",
                                                               "#7f7f7f", "#aec7e8", "#ffbb78", "#98df8a"};
constexpr std::string_view kTotalColour = "#222222";
constexpr std::string_view kLimitColour = "#d62728";

struct Line {
  std::string name;
  std::string_view colour;
  std::vector<double> values;  // one a second
  bool dashed = false;
};

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string Short(double number) {
  char text[32];
  if (number >= 1e6) {
    std::snprintf(text, sizeof text, "%gM", number / 1e6);
  } else if (number >= 1e4) {
    std::snprintf(text, sizeof text, "%gk", number / 1e3);
  } else {
    std::snprintf(text, sizeof text, "%g", number);
  }
  return text;
}

std::string Coordinate(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", number);
  return text;
}

// The least round number that is not below `most`.
double RoundedUp(double most) {
  if (most <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(most)));
  for (const double step : {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0}) {
    if (step * power >= most) return step * power;
  }
  return 10 * power;
}

class Picture {
 public:
  Picture(const Outcome& outcome, const std::string& title) : outcome_(outcome) {
    const double height = kTop + 4 * (kPanel + kGap);
    svg_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + Coordinate(kWidth) + " " + Coordinate(height) +
           "\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    Text(kLeft, 18, title, "font-size=\"15\"");
    ChooseWorkers();
  }

  void Panel(const std::string& title, const std::vector<Line>& lines, bool legend) {
    const double top = kTop + static_cast<double>(panels_++) * (kPanel + kGap);
    double most = 0;
    for (const Line& line : lines) {
      for (const double value : line.values) most = std::max(most, value);
    }
    const double scale = RoundedUp(most);
    Text(kLeft, top - 6, title, "font-weight=\"bold\"");
    Axes(top, scale);
    for (const Line& line : lines) Draw(line, top, scale);
    if (!legend) return;
    double y = top + 10;
    for (const Line& line : lines) {
      Text(kWidth - kRight + 12, y, line.name, "fill=\"" + std::string(line.colour) + "\"");
      y += 13;
    }
  }

  [[nodiscard]] std::vector<Line> PerWorker(const std::function<double(const Cell&)>& of) const {
    std::vector<Line> lines;
    for (std::size_t k = 0; k < shown_.size(); ++k) {
      lines.push_back({outcome_.workers[shown_[k]], kColours[k],
                       Values([&](std::size_t second) { return of(outcome_.At(second, shown_[k])); })});
    }
    if (others_.empty()) return lines;
    const auto count = static_cast<double>(others_.size());
    lines.push_back(
        {"mean of the other " + std::to_string(others_.size()), kColours.back(), Values([&](std::size_t second) {
           double sum = 0;
           for (const std::size_t i : others_) sum += of(outcome_.At(second, i));
           return sum / count;
         })});
    return lines;
  }

  [[nodiscard]] std::vector<double> Values(const std::function<double(std::size_t)>& at) const {
    std::vector<double> values;
    for (std::size_t second = 0; second < outcome_.seconds; ++second) values.push_back(at(second));
    return values;
  }

  std::string Finish() { return std::move(svg_) + "</svg>\n"; }

 private:
  void ChooseWorkers() {
    std::vector<std::size_t> all(outcome_.workers.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (all.size() <= kMostLines) {
      shown_ = std::move(all);
      return;
    }
    std::vector<std::int64_t> sent(all.size());
    for (std::size_t second = 0; second < outcome_.seconds; ++second) {
      for (std::size_t i = 0; i < all.size(); ++i) sent[i] += outcome_.At(second, i).sent;
    }
    std::stable_sort(all.begin(), all.end(), [&](std::size_t a, std::size_t b) { return sent[a] > sent[b]; });
    shown_.assign(all.begin(), all.begin() + (kMostLines - 1));
    others_.assign(all.begin() + (kMostLines - 1), all.end());
    std::sort(shown_.begin(), shown_.end());
  }

  [[nodiscard]] double X(double second) const {
    return kLeft + second / static_cast<double>(outcome_.seconds) * (kWidth - kLeft - kRight);
  }

  void Text(double x, double y, std::string_view text, const std::string& style) {
    svg_ +=
        "<text x=\"" + Coordinate(x) + "\" y=\"" + Coordinate(y) + "\" " + style + ">" + Escaped(text) + "</text>\n";
  }

  void Rule(double x1, double y1, double x2, double y2, const std::string& style) {
    svg_ += "<path d=\"M" + Coordinate(x1) + " " + Coordinate(y1) + "L" + Coordinate(x2) + " " + Coordinate(y2) +
            "\" " + style + "/>\n";
  }

  void Axes(double top, double scale) {
    const double bottom = top + kPanel;
    for (int part = 0; part <= 2; ++part) {
      const double y = bottom - part * kPanel / 2;
      Rule(kLeft, y, kWidth - kRight, y, "stroke=\"#ddd\"");
      Text(kLeft - 6, y + 4, Short(scale * part / 2), "text-anchor=\"end\"");
    }
    const double step = std::max(1.0, RoundedUp(static_cast<double>(outcome_.seconds) / 10));
    for (double second = 0; second <= static_cast<double>(outcome_.seconds); second += step) {
      Text(X(second), bottom + 14, Short(second) + " s", "text-anchor=\"middle\" fill=\"#555\"");
    }
    for (std::size_t i = 0; i < outcome_.events.size(); ++i) {
      const double x = X(static_cast<double>(outcome_.events[i].second));
      Rule(x, top, x, bottom, "stroke=\"#999\" stroke-dasharray=\"2 3\"");
      if (panels_ > 1) continue;
      // Close ones below each other.
      Text(x + 3, top + 11 + 11 * static_cast<double>(i % 3), outcome_.events[i].text, "fill=\"#777\" font-size=\"9\"");
    }
  }

  // With more seconds than points the highest of those that fall together.
  void Draw(const Line& line, double top, double scale) {
    const std::size_t together = (line.values.size() + kMostPoints - 1) / kMostPoints;
    svg_ += "<polyline fill=\"none\" stroke=\"" + std::string(line.colour) + "\"" +
            (line.dashed ? " stroke-dasharray=\"6 3\"" : "") + " points=\"";
    for (std::size_t second = 0; second < line.values.size(); second += together) {
      const auto begin = line.values.begin() + static_cast<std::ptrdiff_t>(second);
      const auto end =
          line.values.begin() + static_cast<std::ptrdiff_t>(std::min(second + together, line.values.size()));
      const double value = *std::max_element(begin, end);
      svg_ += (second == 0 ? "" : " ") + Coordinate(X(static_cast<double>(second) + 0.5)) + "," +
              Coordinate(top + kPanel - value / scale * kPanel);
    }
    svg_ += "\"/>\n";
  }

  const Outcome& outcome_;
  std::string svg_;
  std::size_t panels_ = 0;
  std::vector<std::size_t> shown_;
  std::vector<std::size_t> others_;
};

}  // namespace

std::string DrawCharts(const Outcome& outcome, const std::string& title) {
  Picture picture(outcome, title);
  const auto total = picture.Values([&](std::size_t second) { return static_cast<double>(outcome.total[second]); });
  picture.Panel("Output rate of each worker, per second",
                picture.PerWorker([](const Cell& cell) { return static_cast<double>(cell.sent); }), true);
  picture.Panel("All together, per second",
                {{"sent", kTotalColour,
                  picture.Values([&](std::size_t second) { return static_cast<double>(outcome.Sent(second)); })},
                 {"max-rate", kLimitColour, total, true}},
                true);
  picture.Panel("Partial limit of each worker", picture.PerWorker([](const Cell& cell) { return cell.share; }), false);
  picture.Panel("Lag: messages that wait",
                picture.PerWorker([](const Cell& cell) { return static_cast<double>(cell.lag); }), false);
  return picture.Finish();
}

}  // namespace posthorn::simulation
