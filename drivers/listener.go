package drivers

// Listener is an address at which Open vSwitch accepts commands besides the sockets of its own machine. Clients
// there can change flows or the database without netplugin noticing.
type Listener struct {
	Target string // in Open vSwitch's notation, such as ptcp:6640 to listen, or tcp:192.0.2.1:6653 to connect
	Bridge string `json:",omitempty"` // the bridge with the flows; empty: the listener serves the database
	Option bool   `json:",omitempty"` // set by an option of ovsdb-server, at its start or later, and in no database
}
