#include <iostream>

#include "config/reference.h"

int main() {
  std::cout << posthorn::config::ReferencePage();
  return std::cout.good() ? 0 : 1;
}
