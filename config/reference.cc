#include "config/reference.h"

#include <string_view>

#include "config/option_table.h"

namespace posthorn::config {
namespace {

std::string_view UnitText(Type type) {
  switch (type) {
    case Type::kDuration:
      return "ms, s, min, h";
    case Type::kSize:
      return "B, KiB, MiB, GiB";
    case Type::kRate:
      return "/s, /min, /h";
    default:
      return "";
  }
}

std::string DefaultText(const Option& option) {
  if (option.required) return "needed";
  if (option.fallback.empty()) return "unset";
  return std::string(option.fallback);
}

std::string RangeText(const Option& option) {
  if (option.min.empty() && option.max.empty()) return "";
  return std::string(option.min) + " to " + std::string(option.max);
}

std::string Availability(const Option& option) {
  if (!option.unavailable.empty()) return "Not in this version: " + std::string(option.unavailable) + ".";
  std::string text;
  for (const Choice& choice : option.choices) {
    if (choice.unavailable.empty()) continue;
    if (!text.empty()) text += " ";
    text += "`" + std::string(choice.word) + "` is not in this version: " + std::string(choice.unavailable) + ".";
  }
  return text;
}

bool IsGroup(const Option& option) {
  return option.type == Type::kSection || option.type == Type::kSections || option.type == Type::kNamed;
}

// A bar parts the cells of a table.
std::string Cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text;
}

void AppendTable(std::string& page, Document document) {
  page += "| key | type | unit | default | range | read | what |\n|---|---|---|---|---|---|---|\n";
  for (const Option& option : Options(document)) {
    std::string what(option.help);
    if (const std::string availability = Availability(option); !availability.empty())
      what += " **" + availability + "**";
    if (option.secret) what += " *Masked where shown, when it may be a secret.*";
    page += "| `" + std::string(option.path) + "` | " + Cell(TypeText(option)) + " | " +
            std::string(UnitText(option.type)) + " | " +
            (IsGroup(option) && !option.required ? "" : DefaultText(option)) + " | " + RangeText(option) + " | " +
            (option.reload == Reload::kLive ? "live" : "at start") + " | " + Cell(what) + " |\n";
  }
}

void AppendWrapped(std::string& out, std::string_view text, std::string_view indent) {
  constexpr std::size_t kWidth = 100;
  std::string line;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > kWidth) {
      out += std::string(indent) + line + "\n";
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
    text = space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
  }
  if (!line.empty()) out += std::string(indent) + line + "\n";
}

void AppendHelp(std::string& out, Document document) {
  for (const Option& option : Options(document)) {
    out += "  " + std::string(option.path) + "  (" + TypeText(option);
    if (option.required) {
      out += ", needed";
    } else if (!option.fallback.empty()) {
      out += ", default " + std::string(option.fallback);
    }
    if (const std::string range = RangeText(option); !range.empty()) out += ", " + range;
    if (option.reload == Reload::kLive) out += ", live";
    out += ")\n";
    std::string text(option.help);
    if (const std::string availability = Availability(option); !availability.empty()) text += " " + availability;
    AppendWrapped(out, text, "      ");
  }
}

}  // namespace

std::string ReferencePage() {
  std::string page = R"(# Configuration

<!-- Generated from config/option_table.cc by scripts/regen-docs: change the table, not this page. -->

Two files: the deployment (`posthorn.yaml`, one per fleet, read at start) and the subscriptions (`subscriptions.yaml`, or a directory of such files, watched
while running). YAML or JSON. `posthorn check FILE` validates either and prints what is in force; `posthorn check --config posthorn.yaml` does both together.

- Durations are `200ms`, `5s`, `10min`, `1h`; sizes `512B`, `64KiB`, `1MiB`, `2GiB`; rates `500/s`, `30/min`, `1000/h`. Decimals are allowed. A bare number
  where a unit is needed is a fault; only the rate `0` needs none.
- `${NAME}` takes an environment variable and `${NAME:-default}` a default where it is unset or empty; `$${` is a literal `${`. An unset variable without a
  default is a fault. `${HOSTNAME}` falls back to the host's name.
- `file:/path` as a value of a subscription's `headers` or of `kafka` takes the file's content without its last line break; an unreadable or empty file is a fault. Secrets are
  read when a revision is: a file that changed is read again with the next revision. Those of a source (`token`, `password`, `headers`) are read for each request.
- Values of `headers` and `kafka` are shown as `***` when their name looks like a secret's (authorization, cookie, token, key, secret, password) or when they
  came from a file or a variable.
- Unknown keys, wrong types, values out of range, duplicate keys and names: every fault is reported in one go, with file, line, key and rule, and one fault is
  enough to refuse the whole revision. The running one then stays.
- Several documents (the files of a directory, or `---` in one file) are one revision: `subscriptions` and `limits` are joined; `instances`, `effective_at`,
  `defaults` and `allow_empty` may stand in one of them only. Hidden files and editors' backups are left out. A document holds at most 16MiB and 32 levels.
- `worker` and `check --config` take `--set key=value` for any key of the deployment, again and again: `--set kafka.bootstrap.servers=localhost:9092`.

## The deployment: `posthorn.yaml`

)";
  AppendTable(page, Document::kDeployment);
  page += R"(
Exactly one source stands under `subscriptions`.

```yaml
fleet: orders
instance: ${HOSTNAME}
kafka:
  bootstrap.servers: localhost:9092
admin: 127.0.0.1:8080
subscriptions:
  file: subscriptions.yaml
```

## The subscriptions: `subscriptions.yaml`

)";
  AppendTable(page, Document::kSubscriptions);
  page += R"(
`defaults` takes the keys of `subscriptions[]` but `name`, `topic` and `endpoint`. A `max_rate` there is the own limit of each subscription; a subscription's own
`limit` or `max_rate` stands against either in `defaults`. A shared limit must not bear the name of a subscription that has its own `max_rate`.

```yaml
instances: 3
defaults: { timeout: 5s, ttl: 1h }
limits:
  acme: { max_rate: 800/s }
subscriptions:
  - name: billing
    topic: orders
    endpoint: https://billing.example/hooks/orders
    max_rate: 500/s
  - name: audit
    topic: orders
    endpoint: https://audit.example/in
    limit: acme
    headers: { authorization: file:/run/secrets/audit }
```
)";
  return page;
}

std::string OptionsHelp() {
  std::string out = "Deployment (posthorn.yaml), read at start:\n";
  AppendHelp(out, Document::kDeployment);
  out += "\nSubscriptions (subscriptions.yaml), watched while running:\n";
  AppendHelp(out, Document::kSubscriptions);
  return out;
}

}  // namespace posthorn::config
