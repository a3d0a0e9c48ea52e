package drivers

// Listener is where Open vSwitch takes orders beside the sockets of its own machine. Whoever gives them there changes flows, or the
// database, past everything that we look after.
type Listener struct {
	Target string // as Open vSwitch has it, such as ptcp:6640, where it listens, or tcp:192.0.2.1:6653, where it asks
	Bridge string `json:",omitempty"` // whose flows are changed so; empty: it is the database
	Option bool   `json:",omitempty"` // ovsdb-server was told so when it was started, or later, and no database has it
}
