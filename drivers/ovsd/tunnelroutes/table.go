package tunnelroutes

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/drivers/ovsd/vswitchd"
	"github.com/contiv/netplugin/utils/fault"
)

// switchRoute is a route in ovs-vswitchd's own table, which it uses for tunnel packets.
type switchRoute struct {
	to   netip.Prefix
	link string
	via  netip.Addr // the router's; invalid: the destination is on the link
	from netip.Addr // source address, which ovs-vswitchd has chosen when the route was added
}

// sameWay reports whether packets leave by the same route.
func (r switchRoute) sameWay(other switchRoute) bool {
	return r.to == other.to && r.link == other.link && r.via == other.via
}

// switchTable is the table as ovs-vswitchd prints it.
type switchTable struct {
	reads bool          // it has routes of the system: ovs-vswitchd reads them
	given []switchRoute // routes that were added by hand
}

// among returns the added routes with one of these prefixes.
func (t switchTable) among(to []netip.Prefix) (routes []switchRoute) {
	for _, r := range t.given {
		if slices.Contains(to, r.to) {
			routes = append(routes, r)
		}
	}
	return routes
}

// ways returns the look-up of the added routes.
func (t switchTable) ways() ways {
	w := ways{map[netip.Prefix]switchRoute{}, nil}
	for _, r := range t.given {
		w.routes[r.to] = r
		if !slices.Contains(w.lengths, r.to.Bits()) {
			w.lengths = append(w.lengths, r.to.Bits())
		}
	}
	slices.Sort(w.lengths)
	slices.Reverse(w.lengths)
	return w
}

// ways looks up routes by addresses.
type ways struct {
	routes  map[netip.Prefix]switchRoute
	lengths []int // of their prefixes, the longest first
}

// to returns the route to an address.
func (w ways) to(a netip.Addr) (switchRoute, bool) {
	for _, bits := range w.lengths {
		if p, err := a.Prefix(bits); err == nil {
			if r, ok := w.routes[p]; ok {
				return r, true
			}
		}
	}
	return switchRoute{}, false
}

// readTable reads the table from ovs-vswitchd.
func readTable(ctx context.Context, control vswitchd.Control) (switchTable, error) {
	text, err := control.Call(ctx, "ovs/route/show")
	if err != nil {
		return switchTable{}, err
	}
	return parseSwitchTable(text)
}

// parseSwitchTable parses lines such as
//
//	Cached: 192.0.2.1/32 dev br0 SRC 192.0.2.1 local
//	User: 0.0.0.0/0 dev br0 GW 192.0.2.254 SRC 192.0.2.1
//
// Routes for packets with a mark are never distinguished by the driver, and omitted.
func parseSwitchTable(text string) (table switchTable, err error) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) > 0 && words[0] == "Cached:":
			table.reads = true
			continue
		case len(words) < 2 || words[0] != "User:":
			continue
		}
		said := map[string]string{}
		for i := 2; i+1 < len(words); i += 2 {
			said[words[i]] = words[i+1]
		}
		if _, marked := said["MARK"]; marked {
			continue
		}
		to, err := netip.ParsePrefix(words[1])
		if err != nil {
			return switchTable{}, fault.New(fault.Internal, "route of ovs-vswitchd %q: %w", strings.TrimSpace(line), err)
		}
		via, _ := netip.ParseAddr(said["GW"]) // some have none
		from, _ := netip.ParseAddr(said["SRC"])
		table.given = append(table.given, switchRoute{to, said["dev"], via, from})
	}
	return table, nil
}

// addSwitchRoute adds a route, or replaces another one with the same prefix. It also makes ovs-vswitchd read
// the addresses of the link: tunnels end at them.
func addSwitchRoute(ctx context.Context, control vswitchd.Control, r switchRoute) error {
	args := []string{r.to.String(), r.link}
	if r.via.IsValid() {
		args = append(args, r.via.String())
	}
	_, err := control.Call(ctx, "ovs/route/add", args...)
	return err
}

// deleteSwitchRoute deletes a route. No tunnel ends at its link's addresses then, until one is added.
func deleteSwitchRoute(ctx context.Context, control vswitchd.Control, r switchRoute) error {
	_, err := control.Call(ctx, "ovs/route/del", r.to.String())
	return err
}

// tunnelsEndAt reports whether ovs-vswitchd accepts tunnel packets at an address.
func tunnelsEndAt(ctx context.Context, control vswitchd.Control, a netip.Addr) (bool, error) {
	ports, err := control.Call(ctx, "tnl/ports/show", "-v")
	return strings.Contains(ports, "(dst="+a.String()+","), err
}
