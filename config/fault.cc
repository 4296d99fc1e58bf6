#include "config/fault.h"

namespace posthorn::config {
namespace {

constexpr std::size_t kLongestValue = 80;
constexpr std::size_t kLongestHint = 200;  // names all keys that are known in a place

// One line whatever the file holds: a fault ends up in a log and a terminal.
std::string Printable(const std::string& text, std::size_t longest = kLongestValue) {
  std::string out;
  for (const char c : text) {
    if (out.size() >= longest) return out + "...";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += '?';
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string ToString(const Fault& fault) {
  std::string out = Printable(fault.file);  // may be empty: of the whole revision
  if (fault.line > 0) out += ":" + std::to_string(fault.line);
  if (fault.line > 0 && fault.column > 0) out += ":" + std::to_string(fault.column);
  if (!fault.path.empty()) out += ": " + Printable(fault.path);
  if (!fault.value.empty()) out += ": \"" + Printable(fault.value) + "\"";
  out += ": " + Printable(fault.rule, std::string::npos);  // the YAML parser's words quote the file
  if (out.starts_with(": ")) out.erase(0, 2);
  if (!fault.hint.empty()) out += " (" + Printable(fault.hint, kLongestHint) + ")";
  return out;
}

std::string ToString(const std::vector<Fault>& faults) {
  std::string out;
  for (const Fault& fault : faults) out += ToString(fault) + "\n";
  return out;
}

}  // namespace posthorn::config
