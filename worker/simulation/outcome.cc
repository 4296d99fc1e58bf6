#include "worker/simulation/outcome.h"

#include <cstdio>
#include <ostream>

namespace posthorn::simulation {
namespace {

template <typename Of>
std::int64_t SumOver(const Outcome& outcome, std::size_t second, const Of& of) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < outcome.workers.size(); ++i) sum += of(outcome.At(second, i));
  return sum;
}

// Whole permits without decimals, shares of the baselines with one.
std::string ShareText(double share) {
  char text[40];
  const bool whole = share == static_cast<double>(static_cast<std::int64_t>(share));
  std::snprintf(text, sizeof text, whole ? "%.0f" : "%.1f", share);
  return text;
}

}  // namespace

std::int64_t Outcome::Sent(std::size_t second) const {
  return SumOver(*this, second, [](const Cell& cell) { return cell.sent; });
}

std::int64_t Outcome::Rejected(std::size_t second) const {
  return SumOver(*this, second, [](const Cell& cell) { return cell.rejected; });
}

std::int64_t Outcome::Lag(std::size_t second) const {
  return SumOver(*this, second, [](const Cell& cell) { return cell.lag; });
}

std::int64_t Outcome::Waiting(std::size_t second) const {
  return SumOver(*this, second, [](const Cell& cell) { return cell.running ? cell.lag : 0; });
}

void WriteCsv(const Outcome& outcome, std::ostream& out) {
  out << "label,second,worker,sent,partial_limit,lag,rejected\n";
  for (std::size_t second = 0; second < outcome.seconds; ++second) {
    const std::string time = std::to_string(outcome.first + static_cast<Label>(second)) + ',' + std::to_string(second);
    for (std::size_t i = 0; i < outcome.workers.size(); ++i) {
      const Cell& cell = outcome.At(second, i);
      out << time << ',' << outcome.workers[i] << ',' << cell.sent << ',' << ShareText(cell.share) << ',' << cell.lag
          << ',' << cell.rejected << '\n';
    }
    out << time << ",*," << outcome.Sent(second) << ',' << outcome.total[second] << ',' << outcome.Lag(second) << ','
        << outcome.Rejected(second) << '\n';
  }
}

}  // namespace posthorn::simulation
