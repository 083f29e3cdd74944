// Dumps of fabrics that are made up: units of hosts with a leaf for each rail, all leaves below the
// same spines.
#pragma once

#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace regatta::tests {

struct RailFabric {
  int units = 2;
  int hosts = 4;  // of a unit
  int rails = 2;
  int spines = 2;
  int cables = 1;  // from each leaf to each spine
  std::string rate = "4xNDR";
  bool aggregation = true;  // each switch has its aggregation node
  int plane = -1;           // only this rail and its own spines

  [[nodiscard]] static std::string hex(unsigned long long value) {
    char text[20];
    std::snprintf(text, sizeof text, "%016llx", value);
    return text;
  }

  // Device → its ports in order → the other end.
  struct Device {
    std::string key, description;
    bool is_switch = false;
    std::vector<std::pair<std::string, int>> ports;  // key and port there; number = index + 1
  };
  [[nodiscard]] std::map<std::string, Device> devices() const {
    std::map<std::string, Device> all;
    const auto device = [&](bool is_switch, unsigned long long guid, const std::string& name) {
      const std::string key = (is_switch ? "S-" : "H-") + hex(guid);
      all[key] = {key, name, is_switch, {}};
      return key;
    };
    const auto cable = [&](const std::string& a, const std::string& b) {
      all[a].ports.emplace_back(b, static_cast<int>(all[b].ports.size()) + 1);
      all[b].ports.emplace_back(a, static_cast<int>(all[a].ports.size()));
    };
    const auto number = [](const char* form, int a, int b) {
      char text[64];
      std::snprintf(text, sizeof text, form, a, b);
      return std::string(text);
    };
    const int first = plane < 0 ? 0 : plane, last = plane < 0 ? rails : plane + 1;
    std::vector<std::string> switches, spine_keys;
    for (int spine = 0; spine < spines; ++spine) {
      const auto guid =
          0x5000U + static_cast<unsigned>(first) * 0x100 + static_cast<unsigned>(spine);
      spine_keys.push_back(device(true, guid, number("MF0;spine%d-%d:MQM9701/U1", first, spine)));
    }
    switches = spine_keys;
    for (int unit = 0; unit < units; ++unit) {
      for (int rail = first; rail < last; ++rail) {
        const auto place = static_cast<unsigned>(unit * rails + rail);
        const std::string leaf =
            device(true, 0x10000U + place, number("MF0;leaf%d-%d:MQM9701/U1", unit, rail));
        switches.push_back(leaf);
        for (int host = 0; host < hosts; ++host) {
          const int node = unit * hosts + host + 1;
          const auto guid = 0x1000000ULL + static_cast<unsigned>(node) * 16U;
          cable(leaf, device(false, guid + static_cast<unsigned>(rail),
                             number("node%04d mlx5_%d", node, rail)));
        }
        for (const std::string& spine : spine_keys) {
          for (int i = 0; i < cables; ++i) cable(leaf, spine);
        }
      }
    }
    if (aggregation) {
      for (std::size_t i = 0; i < switches.size(); ++i) {
        cable(switches[i], device(false, 0x9000000ULL + static_cast<unsigned>(first) * 0x1000U + i,
                                  "Mellanox Technologies Aggregation Node"));
      }
    }
    return all;
  }

  // As ibnetdiscover writes it.
  [[nodiscard]] std::string blocks() const {
    const auto all = devices();
    std::string text = "#\n# Topology file: generated on Wed Aug  6 16:11:23 2025\n#\n";
    for (const bool is_switch : {true, false}) {
      for (const auto& [key, device] : all) {
        if (device.is_switch != is_switch) continue;
        const std::string guid = key.substr(2), count = std::to_string(device.ports.size());
        text += "\nvendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x" + guid + "\n";
        text += is_switch
                    ? "switchguid=0x" + guid + "(" + guid + ")\nSwitch\t" + count + " \"" + key +
                          "\"\t\t# \"" + device.description + "\" enhanced port 0 lid 73 lmc 0\n"
                    : "caguid=0x" + guid + "\nCa\t" + count + " \"" + key + "\"\t\t# \"" +
                          device.description + "\"\n";
        for (std::size_t i = 0; i < device.ports.size(); ++i) {
          const auto& [peer, port] = device.ports[i];
          const Device& other = all.at(peer);
          text += "[" + std::to_string(i + 1) + "]" + (is_switch ? "" : "(" + guid + ") ") +
                  "\t\"" + peer + "\"[" + std::to_string(port) + "]" +
                  (other.is_switch ? "" : "(" + peer.substr(2) + ") ") + "\t\t# " +
                  (is_switch ? "" : "lid 5 lmc 0 ") + "\"" + other.description + "\" lid 9 " +
                  rate + "\n";
        }
      }
    }
    return text;
  }

  // As ibnetdiscover -p writes it.
  [[nodiscard]] std::string ports() const {
    const auto all = devices();
    std::string text =
        "DR path slid 0; dlid 0; 0 -> new Channel Adapter {1} portnum 1 lid 0-0 \"\"\n";
    const std::size_t x = rate.find('x');
    const std::string spaced = rate.substr(0, x + 1) + " " + rate.substr(x + 1);
    for (const auto& [key, device] : all) {
      for (std::size_t i = 0; i < device.ports.size(); ++i) {
        const auto& [peer, port] = device.ports[i];
        const Device& other = all.at(peer);
        text += std::string(device.is_switch ? "SW" : "CA") + "     7 " + std::to_string(i + 1) +
                " 0x" + key.substr(2) + " " + spaced + " - " + (other.is_switch ? "SW" : "CA") +
                "    58 " + std::to_string(port) + " 0x" + peer.substr(2) + " ( '" +
                device.description + "' - '" + other.description + "' )\n";
      }
    }
    return text;
  }
};

}  // namespace regatta::tests
