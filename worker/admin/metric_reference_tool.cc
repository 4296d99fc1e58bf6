#include <iostream>

#include "worker/admin/metric_table.h"

int main() {
  std::cout << posthorn::admin::MetricReference();
  return std::cout.good() ? 0 : 1;
}
