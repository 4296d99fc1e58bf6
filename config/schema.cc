#include "config/schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <vector>

#include "config/rules.h"

namespace posthorn::config {
namespace {

// The forms of values, as ECMAScript patterns without anchors. `${NAME}` may stand in any of them.
constexpr std::string_view kDecimal = "[0-9]+(\\.[0-9]{1,6})?";
constexpr std::string_view kNameForm = "[a-z0-9][a-z0-9.-]{0,127}";
constexpr std::string_view kKafkaForm = "[A-Za-z0-9._-]+";
constexpr std::string_view kVariable = "\\$\\{";

struct Form {
  std::string (*check)(std::string_view value);
  std::string_view pattern;
};

// What the checks beyond a type look for, as far as a pattern can say it.
constexpr std::array<Form, 11> kForms{{
    {&CheckFleet, kKafkaForm},
    {&CheckInstance, kKafkaForm},
    {&CheckTopic, kKafkaForm},
    {&CheckMoment, "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"},
    {&CheckAddress, "(\\[[^\\]]+\\]|[^:\\[\\]]+):[0-9]{1,5}"},
    {&CheckServer, "[hH][tT][tT][pP][sS]?://[^/?#@]+/?"},
    {&CheckPathSegment, "[A-Za-z0-9._+-]+"},
    {&CheckPathPattern, "/[A-Za-z0-9._+/*,-]*"},
    {&CheckEndpoint, "[hH][tT][tT][pP][sS]?://[^/?#@]+([/?][^#]*)?"},
    {&CheckHost, "[A-Za-z0-9._:-]+"},
    {&CheckForwardPattern, "[!#$%&'+.^_`|~0-9A-Za-z-]+\\*?|\\*"},
}};

constexpr std::array<Form, 3> kKeyForms{{
    {&CheckHeaderName, "[!#$%&'*+.^_`|~0-9A-Za-z-]+"},
    {&CheckSourceHeader, "[!#$%&'*+.^_`|~0-9A-Za-z-]+"},
    {&CheckKafkaSetting, "[a-z0-9._]+"},
}};

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string Anchored(std::string_view pattern, bool empty_too, bool variables = true) {
  return "^(" + std::string(pattern) + ")$" + (empty_too ? "|^$" : "") +
         (variables ? "|" + std::string(kVariable) : "");
}

// JSON with one key a line, in the order it is written.
class Writer {
 public:
  void Open(std::string_view key, char bracket) {
    Start(key);
    out_ += bracket;
    closing_ += bracket == '{' ? '}' : ']';
    first_ = true;
  }
  void Close() {
    const char bracket = closing_.back();
    closing_.pop_back();
    if (!first_) NewLine();
    out_ += bracket;
    first_ = false;
  }
  void Json(std::string_view key, std::string_view json) {
    Start(key);
    out_ += json;
  }
  void Text(std::string_view key, std::string_view text) { Json(key, JsonString(text)); }
  std::string Take() { return std::move(out_) + "\n"; }

 private:
  void NewLine() { out_ += "\n" + std::string(2 * closing_.size(), ' '); }
  void Start(std::string_view key) {
    if (!first_) out_ += ',';
    if (!closing_.empty()) NewLine();
    first_ = false;
    if (!key.empty()) out_ += JsonString(key) + ": ";
  }
  std::string out_;
  std::string closing_;
  bool first_ = true;
};

class Schema {
 public:
  explicit Schema(Document document) : document_(document) {}

  std::string Make() {
    out_.Open("", '{');
    out_.Text("$schema", "https://json-schema.org/draft/2020-12/schema");
    out_.Text("title", document_ == Document::kDeployment ? "Posthorn: deployment" : "Posthorn: subscriptions");
    Keys("", "", false);
    out_.Close();
    return out_.Take();
  }

 private:
  // The keys of a section of the table, which `shown` names as the file does. Inside an open object.
  void Keys(const std::string& shown, const std::string& table, bool may_be_null) {
    out_.Json("type", may_be_null ? R"(["object", "null"])" : R"("object")");
    out_.Json("additionalProperties", "false");
    std::string required;
    out_.Open("properties", '{');
    for (const std::string_view key : KeysBelow(document_, shown)) {
      const std::string path = (table.empty() ? "" : table + ".") + std::string(key);
      const Option& option = *FindOption(document_, path);
      if (!option.unavailable.empty()) continue;
      out_.Open(key, '{');
      Property(option, (shown.empty() ? "" : shown + ".") + std::string(key));
      out_.Close();
      if (option.required && !shown.starts_with("defaults"))
        required += (required.empty() ? "" : ", ") + JsonString(key);
    }
    out_.Close();
    if (!required.empty()) out_.Json("required", "[" + required + "]");
    if (table == "subscriptions[]") {
      out_.Json("not", R"({ "required": ["max_rate", "limit"], "properties": { "limit": { "minLength": 1 } } })");
    }
    if (document_ == Document::kDeployment && shown == "subscriptions") OneSource();
  }

  void OneSource() {
    out_.Open("oneOf", '[');
    for (const std::string_view key : KeysBelow(document_, "subscriptions")) {
      const Option& option = *FindOption(document_, "subscriptions." + std::string(key));
      if (key != "cache" && option.unavailable.empty()) out_.Json("", "{ \"required\": [" + JsonString(key) + "] }");
    }
    out_.Close();
  }

  void Property(const Option& option, const std::string& shown) {
    out_.Text("description", option.help);
    if (!option.fallback.empty()) {
      const bool bare = option.type == Type::kInteger || option.type == Type::kNumber || option.type == Type::kBool;
      out_.Json("default", bare ? std::string(option.fallback) : JsonString(option.fallback));
    }
    switch (option.type) {
      case Type::kSection:
        return Keys(shown, option.path == "defaults" ? "subscriptions[]" : std::string(option.path), true);
      case Type::kSections:
        out_.Json("type", R"(["array", "null"])");
        out_.Open("items", '{');
        Keys(shown + "[]", std::string(option.path) + "[]", false);
        return out_.Close();
      case Type::kNamed:
        out_.Json("type", R"(["object", "null"])");
        out_.Json("propertyNames", "{ \"pattern\": " + JsonString(Anchored(kNameForm, false, false)) + " }");
        out_.Open("additionalProperties", '{');
        Keys(shown + ".*", std::string(option.path) + ".*", false);
        return out_.Close();
      case Type::kTextMap:
      case Type::kSecretMap:
        return TextMap(option);
      case Type::kTextList:
        out_.Json("type", R"(["array", "null"])");
        out_.Open("items", '{');
        TextValue(PatternOf(kForms, option.check), false);
        return out_.Close();
      case Type::kText:
        return TextValue(PatternOf(kForms, option.check), !option.required);
      case Type::kPath:
      case Type::kSecret:
        return TextValue("", !option.required);
      case Type::kName:
        return TextValue(kNameForm, !option.required);
      case Type::kEnum:
        return Words(option);
      case Type::kDuration:
        return Unit(std::string(kDecimal) + "(ms|s|min|h)");
      case Type::kSize:
        return Unit(std::string(kDecimal) + "(B|KiB|MiB|GiB)");
      case Type::kRate:
        out_.Open("anyOf", '[');
        out_.Json("", R"({ "const": 0 })");
        out_.Json("", "{ \"type\": \"string\", \"pattern\": " +
                          JsonString(Anchored("[0-9]+(\\.[0-9]+)?/(s|min|h)|0+(\\.0+)?", false)) + " }");
        return out_.Close();
      case Type::kInteger:
        return Number(option, "integer");
      case Type::kNumber:
        return Number(option, "number");
      case Type::kBool:
        return OrVariable(R"({ "type": "boolean" })");
    }
  }

  template <typename Forms>
  static std::string_view PatternOf(const Forms& forms, std::string (*check)(std::string_view)) {
    const auto found = std::find_if(forms.begin(), forms.end(), [&](const Form& form) { return form.check == check; });
    return found == forms.end() ? std::string_view() : found->pattern;
  }

  // A number or a truth where a text is needed is that text.
  void TextValue(std::string_view pattern, bool empty_too) {
    out_.Json("type", R"(["string", "number", "boolean"])");
    if (!pattern.empty()) {
      out_.Text("pattern", Anchored(pattern, empty_too));
    } else if (!empty_too) {
      out_.Json("minLength", "1");
    }
  }

  void TextMap(const Option& option) {
    const bool kafka = option.path == "kafka";  // a client without an address has nobody to ask
    out_.Json("type", option.required ? R"("object")" : R"(["object", "null"])");
    if (const auto form = PatternOf(kKeyForms, option.check_key); !form.empty()) {
      out_.Json("propertyNames", "{ \"pattern\": " + JsonString(Anchored(form, false, false)) + " }");
    }
    out_.Json("additionalProperties", R"({ "type": ["string", "number", "boolean"] })");
    if (kafka) {
      out_.Json("required", R"(["bootstrap.servers"])");
    } else if (option.path.ends_with(".kafka")) {
      out_.Json("anyOf", R"([{ "maxProperties": 0 }, { "required": ["bootstrap.servers"] }])");
    }
  }

  void Words(const Option& option) {
    std::string words;
    for (const Choice& choice : option.choices) {
      if (!choice.unavailable.empty()) continue;
      words += (words.empty() ? "" : ", ") + JsonString(choice.word);
      // Without quotes YAML takes `1.1` for a number.
      double number = 0;
      const char* end = choice.word.data() + choice.word.size();
      if (std::from_chars(choice.word.data(), end, number).ptr == end) words += ", " + std::string(choice.word);
    }
    OrVariable("{ \"enum\": [" + words + "] }");
  }

  void Unit(std::string_view pattern) {
    out_.Text("type", "string");
    out_.Text("pattern", Anchored(pattern, false));
  }

  void Number(const Option& option, std::string_view type) {
    std::string json = "{ \"type\": " + JsonString(type);
    if (!option.min.empty()) json += ", \"minimum\": " + std::string(option.min);
    if (!option.max.empty()) json += ", \"maximum\": " + std::string(option.max);
    OrVariable(json + " }");
  }

  void OrVariable(std::string_view json) {
    out_.Open("anyOf", '[');
    out_.Json("", json);
    out_.Json("", "{ \"type\": \"string\", \"pattern\": " + JsonString(kVariable) + " }");
    out_.Close();
  }

  const Document document_;
  Writer out_;
};

}  // namespace

std::string JsonSchema(Document document) { return Schema(document).Make(); }

}  // namespace posthorn::config
