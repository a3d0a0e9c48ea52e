package ovsd

import "slices"

// TunnelLinks returns the links on which a switch that forwards packets itself receives tunnel packets: those
// of the bridge that has the tunnel address on an interface of its own. The kernel receives each of these
// packets, too, and does not use it. There are none if the kernel forwards, or if the address is elsewhere.
func (d *Driver) TunnelLinks() ([]string, error) {
	if ours, ok := d.db.ourBridge(); !ok || ours.Datapath != DatapathNetdev || !d.config.VTEP.IsValid() {
		return nil, nil
	}
	holder, ok, err := d.links.withAddress(d.config.VTEP)
	if err != nil || !ok {
		return nil, err
	}
	bridge, ok := d.db.bridgeOf(holder.Attrs().Name)
	if !ok || bridge.Datapath != DatapathNetdev {
		return nil, nil
	}
	var links []string
	for _, name := range d.db.kernelLinks(bridge) {
		_, ok, err := d.links.mtu(name)
		if err != nil {
			return nil, err
		}
		if ok && name != holder.Attrs().Name {
			links = append(links, name)
		}
	}
	slices.Sort(links)
	return links, nil
}

// bridgeOf finds the bridge of an interface, also one that is not the driver's.
func (db *database) bridgeOf(name string) (bridgeRow, bool) {
	link, ok := db.linkNamed.Row(name)
	if !ok {
		return bridgeRow{}, false
	}
	port, ok := db.ports.Find(func(p portRow) bool { return slices.Contains(p.Interfaces, link.UUID) })
	if !ok {
		return bridgeRow{}, false
	}
	return db.bridges.Find(func(b bridgeRow) bool { return slices.Contains(b.Ports, port.UUID) })
}

// kernelLinks returns the interfaces of a bridge that are links of the kernel with a driver of their
// own, except those of endpoints.
func (db *database) kernelLinks(bridge bridgeRow) (names []string) {
	for _, id := range bridge.Ports {
		port, _ := db.ports.Get(id)
		for _, id := range port.Interfaces {
			link, ok := db.interfaces.Get(id)
			if _, endpoints := hostLinkNumber(link.Name); ok && !endpoints && (link.Type == "" || link.Type == DatapathSystem) {
				names = append(names, link.Name)
			}
		}
	}
	return names
}
