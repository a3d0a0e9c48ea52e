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

// The interface may be on one link with another one of the host: the local port of the
// uplinks' bridge, which has the host's addresses there (package uplink). By itself Linux
// answers ARP for an address of the host at any interface, and asks from any address. A router
// that takes the local port's MAC for the node's would send there what is for pods, and whoever
// takes the interface's for the host's would send there what the switch does not give the host.

// apart are the settings by which an interface answers ARP for its own addresses only, and asks from those: the
// value that is set unless it has one that is as strict.
var apart = map[string][]string{
	"arp_ignore":   {"1", "2", "8"},
	"arp_announce": {"2"},
}

// separate gives interfaces these settings; one that is not there is left out. Nothing has to be
// put back: both interfaces are ours, and go with their settings.
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
