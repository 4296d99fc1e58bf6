#include "config/secret.h"

#include "config/rules.h"

namespace posthorn::config {

std::optional<std::string> ReadSecret(const Secret& secret, std::string* why, const Environment& environment) {
  if (secret.file.empty()) return secret.value;
  std::string reason;
  auto text = environment.read_file(secret.file, &reason);
  if (text && text->ends_with('\n')) text->pop_back();
  if (text && text->ends_with('\r')) text->pop_back();
  if (text && text->empty()) reason = "the file is empty";
  if (text && !text->empty()) reason = CheckHeaderValue(*text);
  if (reason.empty()) return text;
  *why = secret.file + ": " + reason;
  return std::nullopt;
}

}  // namespace posthorn::config
