#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "config/document.h"
#include "config/effective.h"
#include "config/fields.h"
#include "config/load.h"
#include "config/option_table.h"
#include "config/reader.h"
#include "config/rfc3339.h"
#include "config/rules.h"
#include "config/units.h"

namespace posthorn::config {
namespace {

struct Place {
  std::string file;
  int line = 0;
  int column = 0;
};

std::string ToText(const Place& place) { return place.file + ":" + std::to_string(place.line); }

// A subscription while it is read: what the model derives, and where each key stands.
struct Draft {
  Subscription subscription;
  std::optional<ratelimit::MaxRate> max_rate;
  Burst burst = Burst::kSmooth;
  std::map<std::string, Place, std::less<>> own;        // its own keys
  std::map<std::string, Place, std::less<>> inherited;  // those of `defaults`
  Place place;
  std::string shown;
};

struct SharedLimit {
  Limit limit;
  Place place;
  const Draft* first_sharer = nullptr;
};

class Merger {
 public:
  Merger(const Capabilities& capabilities, const Environment& environment)
      : capabilities_(capabilities), environment_(environment) {}

  Loaded<Snapshot> Load(const std::map<std::string, std::string>& files) {
    for (const auto& [name, text] : files) Parse(name, text);
    for (Parsed& document : documents_) ReadTop(document);
    if (defaults_ != nullptr) ReadDefaults(*defaults_);
    for (Parsed& document : documents_) ReadLimits(document);
    for (Parsed& document : documents_) ReadSubscriptions(document);
    for (Draft& draft : drafts_) CheckDraft(draft);
    if (faults_.empty() && drafts_.empty() && !allow_empty_) {
      const std::string what = files.empty() ? "the source holds no document" : "no subscription";
      faults_.push_back({files.empty() ? "" : files.begin()->first, 0, 0, "subscriptions", "",
                         what + ": refused unless `allow_empty: true` stands in " + (files.empty() ? "one" : "it"),
                         ""});
    }
    Loaded<Snapshot> result;
    if (faults_.empty()) {
      result.value = Finish();
      result.value->digest = Digest(files);
    } else {
      SortFaults();
      result.faults = std::move(faults_);
    }
    return result;
  }

 private:
  struct Parsed {
    std::string file;
    Node root;
    const Node* defaults = nullptr;
    const Node* limits = nullptr;
    const Node* subscriptions = nullptr;
  };

  void Parse(const std::string& name, const std::string& text) {
    for (Node& root : ParseDocuments(name, text, faults_)) documents_.push_back({name, std::move(root)});
  }

  Reader ReaderOf(const Parsed& document) {
    return Reader(Document::kSubscriptions, document.file, environment_, faults_);
  }

  void AddFault(const Place& place, std::string path, std::string value, std::string rule) {
    faults_.push_back({place.file, place.line, place.column, std::move(path), std::move(value), std::move(rule), ""});
  }

  // `instances`, `effective_at`, `defaults` and `allow_empty` speak for the whole revision: only one document may.
  bool First(std::string_view key, const Parsed& document, const Node& node) {
    const Place place{document.file, node.line, node.column};
    const auto [found, fresh] = once_.try_emplace(std::string(key), place);
    if (!fresh) {
      AddFault(place, std::string(key), "", "may stand in one document only, and stands in " + ToText(found->second));
    }
    return fresh;
  }

  void ReadTop(Parsed& document) {
    Reader reader = ReaderOf(document);
    reader.ReadSection(document.root, "", "", [&](std::string_view key, const Node& node, const Value& value) {
      if (key == "limits") document.limits = &node;
      if (key == "subscriptions") document.subscriptions = &node;
      if (key == "defaults" && First(key, document, node)) {
        document.defaults = &node;
        defaults_ = &document;
      }
      if (key == "instances" && First(key, document, node)) {
        snapshot_.instances = static_cast<std::uint32_t>(std::get<std::int64_t>(value));
      }
      if (key == "effective_at" && First(key, document, node)) {
        const auto time = ParseRfc3339(std::get<std::string>(value));  // empty: as if it were absent
        if (time) snapshot_.effective_at = std::chrono::ceil<std::chrono::seconds>(*time);
      }
      if (key == "allow_empty" && First(key, document, node)) allow_empty_ = std::get<bool>(value);
    });
  }

  static void Fill(Draft& draft, std::string_view key, const Value& value) {
    if (key == "max_rate") draft.max_rate = std::get<ratelimit::MaxRate>(value);
    if (key == "burst") Assign(draft.burst, value);
    VisitFields(draft.subscription, [&](std::string_view name, auto& field) {
      if (name == key) Assign(field, value);
    });
    if (key != "headers") return;
    draft.subscription.secret_headers.clear();
    for (const TextEntry& entry : std::get<std::vector<TextEntry>>(value)) {
      if (entry.hidden || LooksSecret(entry.key)) draft.subscription.secret_headers.push_back(entry.key);
    }
  }

  void ReadDefaults(const Parsed& document) {
    Reader reader = ReaderOf(document);
    base_.place = {document.file, document.defaults->line, document.defaults->column};
    reader.ReadSection(*document.defaults, "defaults", "defaults",
                       [&](std::string_view key, const Node& node, const Value& value) {
                         Fill(base_, key, value);
                         base_.inherited[std::string(key)] = {document.file, node.line, node.column};
                       });
    if (base_.inherited.contains("max_rate") && base_.inherited.contains("limit")) {
      AddFault(base_.inherited["limit"], "defaults.limit", base_.subscription.limit,
               "`max_rate` and `limit` exclude each other");
    }
  }

  void ReadLimits(const Parsed& document) {
    if (document.limits == nullptr) return;
    Reader reader = ReaderOf(document);
    for (std::size_t i = 0; i < document.limits->items.size(); ++i) {
      const Node::Key& key = document.limits->keys[i];
      const std::string shown = "limits." + key.text;
      SharedLimit shared;
      shared.limit.name = key.text;
      shared.place = {document.file, key.line, key.column};
      if (std::string rule = CheckName(key.text); !rule.empty()) AddFault(shared.place, shown, key.text, rule);
      const Node& item = document.limits->items[i];
      if (item.kind == Node::Kind::kMap) {
        reader.ReadSection(item, "limits.*", shown, [&](std::string_view, const Node&, const Value& value) {
          shared.limit.max_rate = std::get<ratelimit::MaxRate>(value);
        });
      } else {
        reader.AddFault(item, shown, item.text, "needs a map, like { max_rate: 500/s }");
      }
      const auto [found, fresh] = limits_.try_emplace(key.text, shared);
      if (!fresh) {
        AddFault(shared.place, shown, "", "a limit of this name stands in " + ToText(found->second.place));
      }
    }
  }

  void ReadSubscriptions(const Parsed& document) {
    if (document.subscriptions == nullptr) return;
    Reader reader = ReaderOf(document);
    for (std::size_t i = 0; i < document.subscriptions->items.size(); ++i) {
      const Node& item = document.subscriptions->items[i];
      Draft draft = base_;
      draft.shown = "subscriptions[" + std::to_string(i) + "]";
      draft.place = {document.file, item.line, item.column};
      if (item.kind == Node::Kind::kNull) {
        reader.AddFault(item, draft.shown, "", "has no value: needs a map of keys");
        continue;
      }
      reader.ReadSection(item, "subscriptions[]", draft.shown,
                         [&](std::string_view key, const Node& node, const Value& value) {
                           Fill(draft, key, value);
                           draft.own[std::string(key)] = {document.file, node.line, node.column};
                         });
      drafts_.push_back(std::move(draft));
    }
  }

  static const Place& PlaceOf(const Draft& draft, std::string_view key) {
    if (const auto found = draft.own.find(key); found != draft.own.end()) return found->second;
    if (const auto found = draft.inherited.find(key); found != draft.inherited.end()) return found->second;
    return draft.place;
  }

  void CheckDraft(Draft& draft) {
    Subscription& s = draft.subscription;
    const auto fault = [&](std::string_view key, std::string value, std::string rule) {
      AddFault(PlaceOf(draft, key), draft.shown + "." + std::string(key), std::move(value), std::move(rule));
    };
    if (!s.name.empty()) {
      const auto [found, fresh] = names_.try_emplace(s.name, draft.place);
      if (!fresh) fault("name", s.name, "a subscription of this name stands in " + ToText(found->second));
    }
    if (s.backoff.initial > s.backoff.max) {
      fault(draft.own.contains("backoff.max") ? "backoff.max" : "backoff.initial", "",
            "`initial` (" + FormatDuration(s.backoff.initial) + ") is above `max` (" + FormatDuration(s.backoff.max) +
                ")");
    }
    if (s.http == HttpVersion::k2 && !capabilities_.http2) {
      fault("http", "2", "not in this version: " + capabilities_.http2_reason);
    }
    if (s.tls.certificate.empty() != s.tls.key.empty()) {
      fault(s.tls.key.empty() ? "tls.certificate" : "tls.key", "", "`certificate` and `key` need each other");
    }
    CheckPlainEndpoint(draft);
    CheckLimit(draft);
  }

  // A subscription that asks for TLS and has none would send in the clear what was meant to be kept.
  void CheckPlainEndpoint(const Draft& draft) {
    if (!LowerCase(draft.subscription.endpoint.substr(0, 5)).starts_with("http:")) return;
    for (const auto& [key, place] : draft.own) {
      if (!key.starts_with("tls.")) continue;
      AddFault(place, draft.shown + "." + key, "", "`tls` needs an https endpoint");
      return;
    }
  }

  void CheckLimit(Draft& draft) {
    Subscription& s = draft.subscription;
    const bool own_rate = draft.own.contains("max_rate");
    const bool own_limit = draft.own.contains("limit") && !s.limit.empty();
    const auto fault = [&](std::string_view key, std::string value, std::string rule) {
      AddFault(PlaceOf(draft, key), draft.shown + "." + std::string(key), std::move(value), std::move(rule));
    };
    if (own_rate && own_limit) {
      fault("limit", s.limit, "`max_rate` and `limit` exclude each other");
      return;
    }
    // What a subscription says itself stands against the other kind in `defaults`.
    if (own_rate) s.limit.clear();
    if (own_limit) draft.max_rate.reset();
    if (!s.limit.empty()) {
      const auto found = limits_.find(s.limit);
      if (found == limits_.end()) {
        std::vector<std::string_view> known;
        for (const auto& [name, shared] : limits_) known.push_back(name);
        const std::string_view nearest = Nearest(s.limit, known);
        fault("limit", s.limit, "no such limit in `limits`");
        if (!nearest.empty()) faults_.back().hint = "did you mean `" + std::string(nearest) + "`?";
        return;
      }
      SharedLimit& shared = found->second;
      if (shared.first_sharer == nullptr) {
        shared.first_sharer = &draft;
        shared.limit.burst = draft.burst;
      } else if (shared.limit.burst != draft.burst) {
        fault("burst", draft.burst == Burst::kSmooth ? "smooth" : "window",
              "sharers of a limit need the same `burst`: `" + shared.first_sharer->subscription.name + "` at " +
                  ToText(PlaceOf(*shared.first_sharer, "burst")) + " has another");
      }
      return;
    }
    if (!draft.max_rate || s.name.empty()) return;
    if (const auto found = limits_.find(s.name); found != limits_.end()) {
      fault("max_rate", draft.max_rate->ToString(),
            "the subscription's own limit would bear the name of the shared limit at " + ToText(found->second.place));
      return;
    }
    s.limit = s.name;
    own_limits_.push_back({s.name, *draft.max_rate, draft.burst});
  }

  Snapshot Finish() {
    for (auto& [name, shared] : limits_) snapshot_.limits.push_back(shared.limit);
    for (Limit& limit : own_limits_) snapshot_.limits.push_back(std::move(limit));
    for (Draft& draft : drafts_) snapshot_.subscriptions.push_back(std::move(draft.subscription));
    const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
    std::sort(snapshot_.limits.begin(), snapshot_.limits.end(), by_name);
    std::sort(snapshot_.subscriptions.begin(), snapshot_.subscriptions.end(), by_name);
    return std::move(snapshot_);
  }

  void SortFaults() {
    std::stable_sort(faults_.begin(), faults_.end(), [](const Fault& a, const Fault& b) {
      return std::tie(a.file, a.line, a.column) < std::tie(b.file, b.line, b.column);
    });
  }

  const Capabilities& capabilities_;
  const Environment& environment_;
  std::vector<Fault> faults_;
  std::vector<Parsed> documents_;
  std::map<std::string, Place> once_;
  const Parsed* defaults_ = nullptr;
  bool allow_empty_ = false;
  Draft base_;
  std::map<std::string, SharedLimit> limits_;
  std::vector<Limit> own_limits_;
  std::vector<Draft> drafts_;
  std::map<std::string, Place> names_;
  Snapshot snapshot_;
};

}  // namespace

Loaded<Snapshot> LoadSubscriptions(const std::map<std::string, std::string>& files, const Capabilities& capabilities,
                                   const Environment& environment) {
  return Merger(capabilities, environment).Load(files);
}

std::string FarAheadNote(const Snapshot& snapshot, ratelimit::WallTime now) {
  constexpr std::chrono::minutes kNear{10};
  if (!snapshot.effective_at || *snapshot.effective_at <= now + kNear) return {};
  return "`effective_at` is more than 10 min ahead: until then a worker that starts without `cache` delivers nothing";
}

}  // namespace posthorn::config
