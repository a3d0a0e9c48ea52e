// Package cniresult writes the result of ADD in any version of the CNI specification.
//
// This plugin's own part is built once, in the newest version, and stored with the attachment. Each answer merges
// it into the result of the plugins that ran before (their entries come first, unchanged) and converts the whole
// to the version of the network configuration.
package cniresult

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
)

// Facts are the data that an attachment reports.
type Facts struct {
	HostLink, HostMAC string // switch side
	Name, MAC         string // container side
	Netns             string
	MTU               int
	Addresses         []netip.Prefix
	NetworkGateways   []netip.Addr // gateways of the networks, for the addresses
	DefaultRoutes     []netip.Addr // gateways of the added default routes
	OnLink            []netip.Addr // hosts with an added route
	DNS               types.DNS
}

// newest is the version of the stored part.
const newest = types100.ImplementedSpecVersion

// firstWithMTU is the version that added "mtu" to interfaces.
const firstWithMTU = "1.1.0"

// Indices of this plugin's interfaces within its part.
const (
	hostSide = iota
	containerSide
)

// Build returns this plugin's part of the result.
func Build(f Facts) *types100.Result {
	r := &types100.Result{
		CNIVersion: newest,
		Interfaces: []*types100.Interface{
			hostSide:      {Name: f.HostLink, Mac: f.HostMAC},
			containerSide: {Name: f.Name, Mac: f.MAC, Mtu: f.MTU, Sandbox: f.Netns},
		},
		DNS: f.DNS,
	}
	for _, a := range f.Addresses {
		r.IPs = append(r.IPs, &types100.IPConfig{
			Interface: types100.Int(containerSide),
			Address:   net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())},
			Gateway:   sameFamily(f.NetworkGateways, a.Addr()),
		})
	}
	for _, gateway := range f.DefaultRoutes {
		r.Routes = append(r.Routes, &types.Route{Dst: defaultDestination(gateway), GW: gateway.AsSlice()})
	}
	for _, host := range f.OnLink {
		r.Routes = append(r.Routes, &types.Route{Dst: net.IPNet{IP: host.AsSlice(), Mask: net.CIDRMask(host.BitLen(), host.BitLen())}})
	}
	return r
}

func sameFamily(gateways []netip.Addr, a netip.Addr) net.IP {
	for _, g := range gateways {
		if g.Is4() == a.Is4() {
			return g.AsSlice()
		}
	}
	return nil
}

func defaultDestination(gateway netip.Addr) net.IPNet {
	bits := gateway.BitLen()
	return net.IPNet{IP: make(net.IP, bits/8), Mask: net.CIDRMask(0, bits)}
}

// Answer merges own into the previous result (raw, in cniVersion; empty: none) and returns the whole in
// cniVersion.
func Answer(own, previous json.RawMessage, cniVersion string) ([]byte, error) {
	ours, err := parse(own, newest)
	if err != nil {
		return nil, fmt.Errorf("stored result: %w", err)
	}
	whole := &types100.Result{CNIVersion: newest}
	if !isAbsent(previous) {
		if whole, err = parsePrevious(previous, cniVersion); err != nil {
			return nil, err
		}
	}
	merge(whole, ours)
	if older, err := version.GreaterThan(firstWithMTU, cniVersion); err == nil && older {
		for _, i := range whole.Interfaces {
			i.Mtu = 0
		}
	}
	converted, err := whole.GetAsVersion(cniVersion)
	if err != nil {
		return nil, types.NewError(types.ErrIncompatibleCNIVersion, fmt.Sprintf("result: %v", err), "")
	}
	data, err := json.MarshalIndent(converted, "", "    ")
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return data, nil
}

// Within returns an error that names the addresses of own that the previous result of a CHECK (raw, in cniVersion; empty: none)
// does not have: it is that of another attachment. Interfaces are not compared, as later plugins of the chain may change them.
func Within(own, previous json.RawMessage, cniVersion string) error {
	if isAbsent(previous) {
		return nil
	}
	ours, err := parse(own, newest)
	if err != nil {
		return fmt.Errorf("stored result: %w", err)
	}
	whole, err := parsePrevious(previous, cniVersion)
	if err != nil {
		return err
	}
	var errs []error
	for _, ip := range ours.IPs {
		if !slices.ContainsFunc(whole.IPs, func(other *types100.IPConfig) bool { return other.Address.String() == ip.Address.String() }) {
			errs = append(errs, fmt.Errorf("prevResult does not have address %s", &ip.Address))
		}
	}
	return errors.Join(errs...)
}

func isAbsent(previous json.RawMessage) bool { return len(previous) == 0 || string(previous) == "null" }

// parsePrevious is parse for the result that the runtime passes.
func parsePrevious(previous json.RawMessage, cniVersion string) (*types100.Result, error) {
	whole, err := parse(previous, cniVersion)
	if err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, fmt.Sprintf("prevResult: %v", err), "")
	}
	return whole, nil
}

// parse reads a result and converts it to the newest version. Results before 1.0.0 may omit their version: it is
// that of the configuration.
func parse(raw json.RawMessage, cniVersion string) (*types100.Result, error) {
	conf := &types.PluginConf{CNIVersion: cniVersion}
	if err := json.Unmarshal(raw, &conf.RawPrevResult); err != nil {
		return nil, err
	}
	for name, value := range conf.RawPrevResult {
		// The conversions assume that no element is null.
		if list, ok := value.([]any); ok && slices.Contains(list, nil) {
			return nil, fmt.Errorf("%s: null is no element", name)
		}
	}
	if err := version.ParsePrevResult(conf); err != nil {
		return nil, err
	}
	if conf.PrevResult == nil {
		return nil, fmt.Errorf("no result")
	}
	return types100.NewResultFromResult(conf.PrevResult)
}

// merge appends ours to whole; interface indices are shifted by the number of existing interfaces, and the DNS
// settings are used only if whole has none.
func merge(whole, ours *types100.Result) {
	offset := len(whole.Interfaces)
	for _, i := range ours.Interfaces {
		whole.Interfaces = append(whole.Interfaces, i.Copy())
	}
	for _, ip := range ours.IPs {
		ip = ip.Copy()
		if ip.Interface != nil {
			*ip.Interface += offset
		}
		whole.IPs = append(whole.IPs, ip)
	}
	whole.Routes = append(whole.Routes, ours.Routes...)
	if whole.DNS.IsEmpty() {
		whole.DNS = ours.DNS
	}
}
