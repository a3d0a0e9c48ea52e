package podlink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/inet"
	"github.com/contiv/netplugin/utils/retry"
)

// Check compares the container's interface with spec and returns an error that names everything missing or
// different. Additional settings of others are ignored.
func (n *Namespace) Check(spec Spec) error {
	return n.run(func() error {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open netlink socket in %s: %w", n.path, err)
		}
		defer nl.Close()
		link, err := nl.LinkByName(spec.Name)
		if err != nil {
			return fmt.Errorf("interface %s is missing in %s: %w", spec.Name, n.path, err)
		}
		if link.Type() != "veth" {
			return fmt.Errorf("interface %s in %s is a %s, not our veth", spec.Name, n.path, link.Type())
		}
		return errors.Join(
			checkLink(link.Attrs(), spec),
			checkAddresses(nl, link, spec),
			checkRoutes(nl, link, spec),
		)
	})
}

func checkLink(have *netlink.LinkAttrs, want Spec) error {
	var errs []error
	if have.HardwareAddr.String() != want.MAC {
		errs = append(errs, fmt.Errorf("interface %s: hardware address is %s, not %s", want.Name, have.HardwareAddr, want.MAC))
	}
	if want.MTU != 0 && have.MTU > want.MTU { // a smaller one, as of the plugin tuning behind us, loses nothing
		errs = append(errs, fmt.Errorf("interface %s: MTU is %d, more than %d", want.Name, have.MTU, want.MTU))
	}
	if have.Flags&net.FlagUp == 0 {
		errs = append(errs, fmt.Errorf("interface %s is down", want.Name))
	}
	return errors.Join(errs...)
}

func checkAddresses(nl *netlink.Handle, link netlink.Link, spec Spec) error {
	list, err := dump(func() ([]netlink.Addr, error) { return nl.AddrList(link, unix.AF_UNSPEC) })
	if err != nil {
		return fmt.Errorf("list addresses of %s: %w", spec.Name, err)
	}
	have := map[netip.Prefix]bool{}
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			ones, _ := a.Mask.Size()
			have[netip.PrefixFrom(addr.Unmap(), ones)] = true
		}
	}
	var errs []error
	for _, want := range spec.Addresses {
		if !have[want] {
			errs = append(errs, fmt.Errorf("interface %s: address %s is missing", spec.Name, want))
		}
	}
	return errors.Join(errs...)
}

func checkRoutes(nl *netlink.Handle, link netlink.Link, spec Spec) error {
	list, err := dump(func() ([]netlink.Route, error) { return nl.RouteList(link, unix.AF_UNSPEC) })
	if err != nil {
		return fmt.Errorf("list routes of %s: %w", spec.Name, err)
	}
	have, reached := map[netip.Addr]bool{}, map[netip.Prefix]bool{}
	for _, r := range list {
		if gateway, ok := netip.AddrFromSlice(r.Gw); ok && isDefault(r.Dst) {
			have[gateway.Unmap()] = true
		} else if !ok && r.Dst != nil {
			to, _ := netip.AddrFromSlice(r.Dst.IP)
			ones, _ := r.Dst.Mask.Size()
			reached[netip.PrefixFrom(to.Unmap(), ones)] = true
		}
	}
	var errs []error
	for _, host := range spec.OnLink {
		if !reached[inet.Host(host)] {
			errs = append(errs, fmt.Errorf("interface %s: route to %s is missing", spec.Name, host))
		}
	}
	for _, want := range spec.Gateways {
		if !have[want] {
			errs = append(errs, fmt.Errorf("interface %s: default route via %s is missing", spec.Name, want))
		}
	}
	return errors.Join(errs...)
}

// dump repeats a listing that the kernel reports as interrupted, since it may lack entries.
func dump[T any](list func() ([]T, error)) (entries []T, err error) {
	for range dumpAttempts {
		if entries, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return entries, err
		}
	}
	return entries, err
}

const dumpAttempts = 5

func isDefault(dst *net.IPNet) bool {
	if dst == nil {
		return true
	}
	ones, _ := dst.Mask.Size()
	return ones == 0
}

// CheckHostLink returns an error unless the switch side of a link exists and is up.
func CheckHostLink(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s is missing on the host: %w", name, err)
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		return fmt.Errorf("link %s on the host is down", name)
	}
	return nil
}

// awaitPause is the interval of checks in AwaitUp. A check makes recent kernels update the state, so one is
// enough.
const awaitPause = time.Millisecond

// AwaitUp returns when the switch side of a link carries packets. The kernel drops packets to the other end until
// it has processed, with a delay, that the other end is up.
func AwaitUp(ctx context.Context, name string) error {
	for {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find link %s: %w", name, err)
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if retry.Pause(ctx, awaitPause); ctx.Err() != nil {
			return fmt.Errorf("link %s is not up: %w", name, ctx.Err())
		}
	}
}

// Exists reports whether the switch side of an endpoint's link exists in the agent's namespace. Names are reused:
// the alias identifies the endpoint. A link without an alias counts as the endpoint's.
func Exists(name, endpointID string) (bool, error) {
	link, err := find(name, endpointID)
	return link != nil, err
}

// InUse reports whether it exists and its other end is up.
func InUse(name, endpointID string) (bool, error) {
	link, err := find(name, endpointID)
	return link != nil && link.Attrs().OperState == netlink.OperUp, err
}

// Leads reports whether it exists and its other end is in another network namespace that has not ended. The kernel
// removes the links of one that has ended some time later.
func Leads(name, endpointID string) (bool, error) {
	link, err := find(name, endpointID)
	return link != nil && int32(link.Attrs().NetNsID) >= 0, err // -1 if it has ended; the netlink library parses it as unsigned
}

// find returns nil if the link does not exist.
func find(name, endpointID string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find link %s: %w", name, err)
	}
	if alias := link.Attrs().Alias; alias != "" && alias != endpointID {
		return nil, nil
	}
	return link, nil
}
