package netctl

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/secret"
)

// checkNetwork requires a subnet of either IP family and gateways that are addresses; the server validates the
// rest.
func checkNetwork(c *call, o contivmodel.Object) error {
	network := o.(*contivmodel.Network)
	if network.Subnet == "" && network.Ipv6Subnet == "" {
		return usageError{"--subnet required", c.cmd}
	}
	if err := checkAddress("gateway", network.Gateway); err != nil {
		return err
	}
	return checkAddress("gatewayv6", network.Ipv6Gateway)
}

// checkBgp validates the required settings of the first neighbour, and reads the password if it comes by standard input.
func checkBgp(c *call, o contivmodel.Object) error {
	for _, name := range []string{"router-ip", "as", "neighbor-as", "neighbor"} {
		if c.cmd.String(name) == "" {
			return usageError{fmt.Sprintf("--%s required", name), c.cmd}
		}
	}
	bgp := o.(*contivmodel.Bgp)
	if _, err := netip.ParsePrefix(bgp.Routerip); err != nil {
		return usageError{message: fmt.Sprintf("--router-ip %q: not an address with a length", bgp.Routerip)}
	}
	if err := checkAddress("neighbor", bgp.Neighbor); err != nil || !c.cmd.Bool("password-stdin") {
		return err
	}
	if c.cmd.IsSet("password") {
		return usageError{"--password and --password-stdin cannot be given together", c.cmd}
	}
	if bgp.Password = secret.Text(c.line()); bgp.Password == "" {
		return usageError{"--password-stdin: the first line of standard input is empty", c.cmd}
	}
	return nil
}

// checkContracts sets the type by two flags, one of which is required.
func checkContracts(c *call, o contivmodel.Object) error {
	contracts := o.(*contivmodel.ExtContractsGroup)
	switch consumed, provided := c.cmd.Bool("consumed"), c.cmd.Bool("provided"); {
	case consumed == provided:
		return usageError{"either --consumed or --provided required", c.cmd}
	case consumed:
		contracts.ContractsType = "consumed"
	default:
		contracts.ContractsType = "provided"
	}
	if len(contracts.Contracts) == 0 {
		return usageError{"--contract required", c.cmd}
	}
	return nil
}

func checkAddress(flag, text string) error {
	if text == "" {
		return nil
	}
	if _, err := netip.ParseAddr(text); err != nil {
		return usageError{message: fmt.Sprintf("--%s %q: not an IP address", flag, text)}
	}
	return nil
}

var rate = regexp.MustCompile(`^([0-9]+) *([kmgKMG])`)

// normalRate formats a bandwidth as number and unit, such as 10Mbps; an invalid value is returned unchanged.
func normalRate(value any) string {
	parts := rate.FindStringSubmatch(value.(string))
	if parts == nil {
		return value.(string)
	}
	return parts[1] + strings.ToUpper(parts[2]) + "bps"
}
