package master

import (
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/utils/fault"
)

// CheckSelectors returns an error for a service without selectors or with invalid ones.
func CheckSelectors(selectors []string) error {
	if len(selectors) == 0 {
		return fault.New(fault.Invalid, "Invalid selector options").WithField("selectors").
			WithExplanation("selectors: want at least one key=value, such as app=web")
	}
	return nil
}

// parseSelectors parses "key=value" items; the value may be empty.
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

// selects reports whether labels match all selectors of a service. An absent label differs from an empty one.
func selects(selectors, labels map[string]string) bool {
	for key, wanted := range selectors {
		if value, has := labels[key]; !has || value != wanted {
			return false
		}
	}
	return true
}

// servedProtocols are the protocols of services in all accepted spellings. A switch's connection
// tracker does not support SCTP ports.
var servedProtocols = []string{"TCP", "tcp", "Tcp", "UDP", "udp", "Udp"}

// CheckPorts returns an error for texts other than "servicePort:providerPort:protocol".
func CheckPorts(ports []string) error {
	refused := fault.New(fault.Invalid, "Invalid Port maping . Port format is - Port:TargetPort:Protocol").WithField("ports")
	if len(ports) == 0 {
		return refused.WithExplanation("ports: want at least one servicePort:providerPort:protocol, such as 80:8080:tcp")
	}
	taken := make(map[string]string, len(ports)) // the item of ports, by service port and protocol
	for _, text := range ports {
		numbers, protocol := portOf(text)
		port, _, transport := splitPort(text)
		own := port + "/" + transport
		switch {
		case !numbers || protocol == "":
			return refused.WithExplanation("ports %q: want servicePort:providerPort:protocol, such as 80:8080:tcp", text)
		case !slices.Contains(servedProtocols, protocol):
			return refused.WithExplanation("ports %q: services are of tcp and udp, and %q is not balanced: clients have to ask the providers themselves", text, protocol)
		case taken[own] != "":
			return refused.WithExplanation("ports %q and %q: port %s of the service is there twice", taken[own], text, own)
		}
		taken[own] = text
	}
	return nil
}

// portOf splits a port: whether both of its numbers are ports, and its protocol, unchecked.
func portOf(text string) (numbers bool, protocol string) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return false, ""
	}
	return !slices.ContainsFunc(parts[:2], func(number string) bool {
		n, err := strconv.ParseUint(number, 10, 16)
		return err != nil || n == 0
	}), parts[2]
}
