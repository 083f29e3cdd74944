#include "topology/fabric/ibnetdiscover.h"

#include <algorithm>
#include <optional>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"
#include "topology/fabric/discovery.h"
#include "topology/graph/hostlist.h"

namespace regatta::topology::fabric {
namespace {

using graph::is_digit;
using View = std::string_view;

constexpr std::size_t kMostBytes = std::size_t{256} << 20U;  // a hundred times the largest clusters
constexpr std::int64_t kMostPorts = 254;                     // of a device in InfiniBand
constexpr std::size_t kMostShown = 80;
// Of an aggregation node, where its description was changed.
constexpr View kAggregationDevice = "devid=0xcf09";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// "0x" and 16 digits of "0x2c9…", "2c9…" or "{2c9…}"'s inside.
std::optional<std::string> normal_guid(View text) {
  if (text.substr(0, 2) == "0x") text.remove_prefix(2);
  if (text.empty() || text.size() > 16 || !std::all_of(text.begin(), text.end(), is_hex)) {
    return std::nullopt;
  }
  std::string guid = "0x" + std::string(16 - text.size(), '0');
  for (const char c : text) guid += static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
  return guid;
}

// Reads a line from its front; each take_ leaves it as it is when the next thing is another one.
class Cursor {
 public:
  explicit Cursor(View text) : text_(text) {}
  [[nodiscard]] View rest() const { return text_; }
  void skip_spaces() {
    while (!text_.empty() && is_space(text_.front())) text_.remove_prefix(1);
  }
  bool take(View what) {
    if (text_.substr(0, what.size()) != what) return false;
    text_.remove_prefix(what.size());
    return true;
  }
  std::optional<std::int64_t> take_number(std::int64_t most) {
    std::size_t digits = 0;
    while (digits < text_.size() && digits < 10 && is_digit(text_[digits])) ++digits;
    const auto number = base::parse_integer(text_.substr(0, digits));
    if (!number || *number > most) return std::nullopt;
    text_.remove_prefix(digits);
    return number;
  }
  // What stands between here and `end`, which is taken as well.
  std::optional<View> take_until(char end) {
    const std::size_t at = text_.find(end);
    if (at == View::npos) return std::nullopt;
    const View found = text_.substr(0, at);
    text_.remove_prefix(at + 1);
    return found;
  }
  View take_word() {
    skip_spaces();
    std::size_t size = 0;
    while (size < text_.size() && !is_space(text_[size])) ++size;
    const View word = text_.substr(0, size);
    text_.remove_prefix(size);
    return word;
  }

 private:
  View text_;
};

bool is_rate(View text) {
  std::size_t digits = 0;
  while (digits < text.size() && is_digit(text[digits])) ++digits;
  return digits > 0 && digits <= 2 && digits + 1 < text.size() && text[digits] == 'x';
}

// What stands behind the word `name` as a number: "… lid 73 lmc 0".
std::int64_t number_after(View text, View name) {
  for (std::size_t at = text.find(name); at != View::npos; at = text.find(name, at + 1)) {
    if (at != 0 && !is_space(text[at - 1])) continue;
    Cursor cursor(text.substr(at + name.size()));
    if (!cursor.take(" ")) continue;
    return cursor.take_number(0xFFFFF).value_or(0);
  }
  return 0;
}

// What ibnetdiscover and its libraries write to standard error, as "2>&1" mixes it in:
// "src/ibnetdisc.c:811; umad (DR path slid 0; dlid 0; 0,1 Attr 0x11:0) bad status 110; …".
bool is_complaint(View line) {
  return line.substr(0, 7) == "ibwarn:" || line.substr(0, 8) == "ibpanic:" ||
         (line.find("umad (") != View::npos && line.find("bad status") != View::npos);
}

class Reader {
 public:
  Reader(View text, const std::string& place, bool skips)
      : text_(text), place_(place), skips_(skips) {}

  Discovery read() {
    if (text_.size() > kMostBytes) {
      throw base::Error(base::Code::User, place_ + ": larger than " +
                                              base::human_bytes(kMostBytes) +
                                              "; is it the output of ibnetdiscover?");
    }
    enum { Unknown, Blocks, Ports } form = Unknown;
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      const View line = base::trimmed(text_.substr(at, end - at));
      at = end + 1;
      ++line_;
      if (line.empty() || line.front() == '#' || line.substr(0, 8) == "DR path ") continue;
      if (skips_ && is_complaint(line)) {
        if (discovery_.unanswered++ == 0) discovery_.first_unanswered = line_;
        continue;
      }
      const View start = line.substr(0, 3);
      const bool is_port = start == "CA " || start == "SW " || start == "RT ";
      if (form == Unknown) form = is_port ? Ports : Blocks;
      if (is_port != (form == Ports)) refuse_line(line);
      if (is_port) {
        read_port_line(line);
      } else {
        read_block_line(line);
      }
    }
    discovery_.one_device_per_port = form == Ports;
    return std::move(discovery_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw base::Error(base::Code::User, place_ + ":" + std::to_string(line_) + ": " + why);
  }
  [[noreturn]] void refuse_line(View line) const {
    refuse("is not a line of ibnetdiscover: '" + base::printable(line.substr(0, kMostShown)) +
           "'; give its output, with or without -p");
  }

  // ---- Blocks --------------------------------------------------------------------------------
  void read_block_line(View line) {
    if (line.front() == '[') return read_port(line);
    for (const View word : {View("Switch"), View("Ca"), View("Rt")}) {
      Cursor cursor(line);
      if (cursor.take(word) && !cursor.rest().empty() && is_space(cursor.rest().front())) {
        return read_header(line, cursor, word == "Switch" || word == "Rt");
      }
    }
    open_ = kNone;
    if (line.substr(0, 6) == "devid=") {
      aggregation_next_ = line == kAggregationDevice;
      return;
    }
    // What -g prints between the blocks of a modular switch, and the other attributes.
    for (const View word : {View("vendid="), View("sysimgguid="), View("switchguid="),
                            View("caguid="), View("rtguid="), View("Chassis"), View("Non-Chassis"),
                            View("Spine"), View("Line"), View("Hca")}) {
      if (line.substr(0, word.size()) == word) return;
    }
    refuse_line(line);
  }

  // Switch 65 "S-2c5eab0300b87b40"   # "MF0;leaf1:MQM9701/U1" enhanced port 0 lid 73 lmc 0
  void read_header(View line, Cursor cursor, bool is_switch) {
    cursor.skip_spaces();
    const auto ports = cursor.take_number(kMostPorts);
    cursor.skip_spaces();
    const auto key = take_key(&cursor);
    cursor.skip_spaces();
    const auto description = cursor.take("#") ? quoted(cursor.rest()) : std::nullopt;
    if (!ports || !key || !description) refuse_line(line);
    if (discovery_.by_key.count(*key) != 0) refuse("a second block of " + *key);
    discovery_.by_key.emplace(*key, discovery_.devices.size());
    open_ = discovery_.devices.size();
    DiscoveredDevice device;
    device.is_switch = is_switch;
    device.guid = *normal_guid(View(*key).substr(2));
    device.description = std::string(description->inside);
    device.is_aggregation = is_aggregation(device.description) || aggregation_next_;
    device.lid = number_after(description->behind, "lid");
    device.port_count = *ports;
    device.line = line_;
    discovery_.devices.push_back(std::move(device));
    aggregation_next_ = false;
  }

  // [35]  "S-2c5eab0300c26280"[32]   # "MF0;spine2:MQM9701/U1" lid 236 4xNDR
  // [1](2c5eab0300b87b50)  "S-2c5eab0300b87b40"[65]   # lid 193 lmc 0 "MF0;leaf1…" lid 73 4xNDR
  void read_port(View line) {
    if (open_ == kNone) refuse("a port outside of a block; the text begins too late");
    Cursor cursor(line);
    DiscoveredPort port;
    port.line = line_;
    const auto number = take_port(&cursor);
    std::optional<std::string> own_guid;
    if (cursor.take("(")) own_guid = normal_guid(cursor.take_until(')').value_or(""));
    cursor.skip_spaces();
    const auto peer = take_key(&cursor);
    const auto peer_port = take_port(&cursor);
    const std::size_t comment = cursor.rest().find('#');
    if (!number || !peer || !peer_port || comment == View::npos) refuse_line(line);
    const auto description = quoted(cursor.rest().substr(comment + 1));
    if (!description) refuse_line(line);
    Cursor behind(description->behind);
    for (View word = behind.take_word(); !word.empty(); word = behind.take_word()) {
      if (!is_rate(word)) continue;
      port.rate = std::string(word);
      break;
    }
    if (port.rate.empty()) refuse("a port without a rate; the line is cut off");
    port.number = *number;
    port.peer = *peer;
    port.to_aggregation = is_aggregation(description->inside);
    port.peer_port = *peer_port;
    DiscoveredDevice& device = discovery_.devices[open_];
    if (device.ports.empty() && own_guid) device.port_guid = *own_guid;
    if (device.lid == 0) device.lid = number_after(description->before, "lid");
    add_port(&device, std::move(port));
  }

  struct Quoted {
    View before, inside, behind;
  };
  // Descriptions may hold anything, quotes too.
  static std::optional<Quoted> quoted(View text) {
    const std::size_t first = text.find('"'), last = text.rfind('"');
    if (first == last) return std::nullopt;
    return Quoted{text.substr(0, first), text.substr(first + 1, last - first - 1),
                  text.substr(last + 1)};
  }

  // "S-…", "H-…" or "R-…" in quotes.
  static std::optional<std::string> take_key(Cursor* cursor) {
    if (!cursor->take("\"")) return std::nullopt;
    const View key = cursor->take_until('"').value_or("");
    if (key.size() < 3 || View("SHR").find(key[0]) == View::npos || key[1] != '-') {
      return std::nullopt;
    }
    const auto guid = normal_guid(key.substr(2));
    if (!guid) return std::nullopt;
    return std::string(key.substr(0, 2)) + *guid;
  }

  // "[17]", and "[ext 3]" behind it in modular switches.
  static std::optional<std::int64_t> take_port(Cursor* cursor) {
    if (!cursor->take("[")) return std::nullopt;
    const auto number = cursor->take_number(kMostPorts);
    if (!cursor->take("]")) return std::nullopt;
    if (cursor->take("[ext ") && !cursor->take_until(']')) return std::nullopt;
    return number;
  }

  // ---- Lines of ports ------------------------------------------------------------------------
  struct PortEnd {
    std::string key;
    std::string guid;
    std::int64_t lid = 0, port = 0;
    bool is_switch = false;
  };
  // "SW    58 30 0x00066a00e3006b6f"
  static std::optional<PortEnd> take_end(Cursor* cursor) {
    PortEnd end;
    const View kind = cursor->take_word();
    end.is_switch = kind != "CA";
    if (kind != "CA" && kind != "SW" && kind != "RT") return std::nullopt;
    cursor->skip_spaces();
    const auto lid = cursor->take_number(0xFFFFF);
    cursor->skip_spaces();
    const auto port = cursor->take_number(kMostPorts);
    const View word = cursor->take_word();
    const auto guid = word.substr(0, 2) == "0x" ? normal_guid(word) : std::nullopt;
    if (!lid || !port || !guid) return std::nullopt;
    end.lid = *lid;
    end.port = *port;
    end.guid = *guid;
    end.key = (end.is_switch ? "S-" : "H-") + end.guid;
    return end;
  }

  // CA   106  1 0x00117500006f39e6 4x QDR - SW    58 30 0x00066a00e3006b6f ( 'n66 qib0' - 'leaf1' )
  // SW    60 26 0x00066a00e30076ab 1x SDR                                    'leaf2'
  void read_port_line(View line) {
    Cursor cursor(line);
    const auto own = take_end(&cursor);
    const View width = cursor.take_word(), speed = cursor.take_word();
    const std::string rate = std::string(width) + std::string(speed);
    if (!own || width.empty() || width.back() != 'x' || !is_rate(rate)) refuse_line(line);
    cursor.skip_spaces();
    DiscoveredPort port;
    port.number = own->port;
    port.line = line_;
    View description;
    if (cursor.take("- ")) {
      const auto peer = take_end(&cursor);
      cursor.skip_spaces();
      const View names = base::trimmed(cursor.rest());
      const std::size_t middle = names.find("' - '");
      if (!peer || names.substr(0, 3) != "( '" || middle == View::npos || names.size() < 8 ||
          names.substr(names.size() - 3) != "' )") {
        refuse_line(line);
      }
      description = names.substr(3, middle - 3);
      port.peer = peer->key;
      port.peer_port = peer->port;
      port.to_aggregation = is_aggregation(names.substr(middle));
      port.rate = rate;
    } else {
      const View name = base::trimmed(cursor.rest());
      if (name.size() < 2 || name.front() != '\'' || name.back() != '\'') refuse_line(line);
      description = name.substr(1, name.size() - 2);
    }
    const auto [found, is_new] = discovery_.by_key.emplace(own->key, discovery_.devices.size());
    if (is_new) {
      DiscoveredDevice device;
      device.is_switch = own->is_switch;
      if (own->is_switch) device.guid = own->guid;
      if (!own->is_switch) device.port_guid = own->guid;
      device.description = std::string(description);
      device.is_aggregation = is_aggregation(description);
      device.lid = own->lid;
      device.line = line_;
      discovery_.devices.push_back(std::move(device));
    }
    add_port(&discovery_.devices[found->second], std::move(port));
  }

  // --------------------------------------------------------------------------------------------
  static bool is_aggregation(View description) {
    return description.find("Aggregation Node") != View::npos;
  }

  void add_port(DiscoveredDevice* device, DiscoveredPort port) const {
    if (device->ports.size() > static_cast<std::size_t>(kMostPorts)) {
      refuse("more than " + std::to_string(kMostPorts) + " ports of one device");
    }
    device->ports.push_back(std::move(port));
  }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  View text_;
  const std::string& place_;
  bool skips_;
  std::size_t line_ = 0;
  Discovery discovery_;
  std::size_t open_ = kNone;  // the device whose block this is
  bool aggregation_next_ = false;
};

}  // namespace

graph::Graph read_ibnetdiscover(std::string_view text, const std::string& place,
                                std::vector<graph::Finding>* findings) {
  Discovery discovery = Reader(text, place, findings != nullptr).read();
  return graph_of(&discovery, place, findings);
}

AdapterName parse_adapter_name(std::string_view description) {
  const View text = base::trimmed(description);
  const std::size_t space = text.find(' ');
  if (space == View::npos) return {};
  const View host = text.substr(0, space), device = base::trimmed(text.substr(space));
  const auto is_name = [](View word) {
    return !word.empty() && word.front() != '-' &&
           std::all_of(word.begin(), word.end(), [](char c) {
             return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
                    c == '_' || c == '-';
           });
  };
  // A device has its number at the end ("mlx5_5"), which no word of a maker's text has.
  if (!is_name(host) || !is_name(device) || !is_digit(device.back())) return {};
  if (device.substr(0, 8) == "ConnectX") return {};  // "MT4129 ConnectX7": a model
  if (host.substr(0, 9) == "localhost") return {"", std::string(device)};
  return {std::string(host), std::string(device)};
}

double parse_infiniband_rate(std::string_view rate) {
  // Megabit per second of a lane, as in the labels of the InfiniBand Trade Association.
  constexpr std::pair<View, double> kLanes[] = {
      {"SDR", 2500},   {"DDR", 5000},   {"QDR", 10'000},  {"FDR10", 10'000}, {"FDR", 14'000},
      {"EDR", 25'000}, {"HDR", 50'000}, {"NDR", 100'000}, {"XDR", 200'000}};
  Cursor cursor(rate);
  const auto width = cursor.take_number(12);
  if (!width || !cursor.take("x")) return 0;
  for (const auto& [name, megabits] : kLanes) {
    if (cursor.rest() == name) return static_cast<double>(*width) * megabits;
  }
  return 0;
}

}  // namespace regatta::topology::fabric
