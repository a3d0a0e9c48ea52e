package border

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The interface may be on the same link as another one of the host: the local port of the uplinks' bridge,
// which has the host's addresses (package uplink). By default Linux answers ARP for any address of the host at
// any interface, and sends ARP requests from any address. A router that learned the local port's MAC for the
// node's address would send packets for pods there; a machine that learned this interface's MAC for the host's
// address would send there packets that the switch does not deliver to the host.

// apart are the sysctls by which an interface answers ARP, and asks, for its own addresses only. The first
// value is set unless the present one is in the list.
var apart = map[string][]string{
	"arp_ignore":   {"1", "2", "8"},
	"arp_announce": {"2"},
}

// separate sets these sysctls on interfaces; missing interfaces are skipped. They need not be restored: both
// interfaces are created by netplugin.
func separate(interfaces ...string) error {
	for _, name := range interfaces {
		for setting, values := range apart {
			path := filepath.Join("/proc/sys/net/ipv4/conf", name, setting)
			have, err := os.ReadFile(path)
			if err == nil && !slices.Contains(values, strings.TrimSpace(string(have))) {
				err = os.WriteFile(path, []byte(values[0]), 0)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("interface %s: %s=%s: %w", name, setting, values[0], err)
			}
		}
	}
	return nil
}
