#include <fstream>
#include <iostream>
#include <sstream>

#include "worker/admin/metric_table.h"

/// Prints the table of metrics, or with a page as argument (docs/operating.md) renews it there.
int main(int argc, char** argv) {
  if (argc < 2) {
    std::cout << posthorn::admin::MetricReference();
    return std::cout.good() ? 0 : 1;
  }
  std::ifstream in(argv[1], std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  std::string page = text.str();
  if (!in || !posthorn::admin::ReplaceMetricReference(page)) {
    std::cerr << argv[1] << ": cannot be read, or has no markers for the metrics\n";
    return 1;
  }
  std::ofstream out(argv[1], std::ios::binary | std::ios::trunc);
  out << page;
  return out.good() ? 0 : 1;
}
