package border

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The interface may be on one link with another one of the host: the local port of the
// uplinks' bridge, which has the host's addresses there (package uplink). By itself Linux
// answers ARP for an address of the host at any interface, and asks from any address. A router
// that takes the local port's MAC for the node's would send there what is for pods, and whoever
// takes the interface's for the host's would send there what the switch does not give the host.

// separate has interfaces answer ARP for their own addresses only, and ask from those. What is
// there and stricter is left; an interface that is not there is left out. Nothing has to be
// put back: both interfaces are ours, and go with their settings.
func separate(interfaces ...string) error {
	for _, name := range interfaces {
		for setting, value := range map[string]string{"arp_ignore": "1", "arp_announce": "2"} {
			path := filepath.Join("/proc/sys/net/ipv4/conf", name, setting)
			have, err := os.ReadFile(path)
			if err == nil && strings.TrimSpace(string(have)) < value { // of one digit
				err = os.WriteFile(path, []byte(value), 0)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("interface %s: %s=%s: %w", name, setting, value, err)
			}
		}
	}
	return nil
}
