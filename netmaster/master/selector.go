package master

import (
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/utils/fault"
)

// CheckSelectors refuses a service that selects nothing in particular.
func CheckSelectors(selectors []string) error {
	if len(selectors) == 0 {
		return fault.New(fault.Invalid, "Invalid selector options").WithField("selectors").
			WithExplanation("selectors: want at least one key=value, such as app=web")
	}
	return nil
}

// parseSelectors reads "key=value" items; the value may be empty.
func parseSelectors(items []string) (map[string]string, error) {
	selectors := map[string]string{}
	for _, item := range items {
		key, value, _ := strings.Cut(item, "=")
		if strings.Count(item, "=") != 1 || key == "" {
			return nil, fault.New(fault.Invalid, "Invalid selector %s. selector format is key1=value1", item).WithField("selectors")
		}
		if other, twice := selectors[key]; twice && other != value {
			return nil, fault.New(fault.Invalid, "Invalid selector %s. label %s cannot be %s as well", item, key, other).WithField("selectors")
		}
		selectors[key] = value
	}
	return selectors, nil
}

// selects tells whether labels have all that a service asks for. A label that
// is absent differs from one that is empty.
func selects(selectors, labels map[string]string) bool {
	for key, wanted := range selectors {
		if value, has := labels[key]; !has || value != wanted {
			return false
		}
	}
	return true
}

// CheckPorts refuses what is not "servicePort:providerPort:protocol".
func CheckPorts(ports []string) error {
	if len(ports) == 0 || slices.ContainsFunc(ports, badPort) {
		return fault.New(fault.Invalid, "Invalid Port maping . Port format is - Port:TargetPort:Protocol").WithField("ports").
			WithExplanation("ports %q: want at least one servicePort:providerPort:protocol, such as 80:8080:tcp", ports)
	}
	return nil
}

func badPort(text string) bool {
	parts := strings.Split(text, ":")
	if len(parts) != 3 || !slices.Contains([]string{"TCP", "tcp", "Tcp", "UDP", "udp", "Udp"}, parts[2]) {
		return true
	}
	return slices.ContainsFunc(parts[:2], func(number string) bool {
		n, err := strconv.ParseUint(number, 10, 16)
		return err != nil || n == 0
	})
}
