package contivmodel

import "time"

// SecurityStatus is the security mode of a cluster, with the daemons and whether they could continue in an
// enforced cluster. It is the response of the routes that read or change the mode.
type SecurityStatus struct {
	Mode      string           `json:"mode"`                // open, permissive or enforced
	Was       string           `json:"was,omitempty"`       // the mode before a change; if equal to Mode, nothing changed
	ClusterID string           `json:"clusterID,omitempty"` // in the names of its certificates; empty: it has no CAs
	Pin       string           `json:"pin,omitempty"`       // identifies its CAs for clients and in tokens
	Daemons   []SecurityDaemon `json:"daemons"`             // registered ones
	Values    string           `json:"values,omitempty"`    // sealed: the store has encrypted values; another text: why not yet; empty: not wanted
}

// SecurityDaemon is a registered netmaster or node.
type SecurityDaemon struct {
	Role    string `json:"role"` // master or node
	Name    string `json:"name"` // of a node its host, of a netmaster its address
	Address string `json:"address"`
	Secured bool   `json:"secured"` // it has a certificate of this cluster, and uses TLS
}

// Plain returns the names of the daemons that could not continue in an enforced cluster.
func (s SecurityStatus) Plain() []string {
	var names []string
	for _, d := range s.Daemons {
		if !d.Secured {
			names = append(names, d.Role+" "+d.Name)
		}
	}
	return names
}

// SecurityReport lists the requests that an enforced cluster would have refused, as counted by the netmasters
// while they led.
type SecurityReport struct {
	Mode  string           `json:"mode"`
	Since time.Time        `json:"since"` // start of complete counts, at most 24 hours ago
	Rows  []WouldBeRefused `json:"rows"`  // latest first
	More  int64            `json:"more"`  // requests that are not in the rows, whose number is limited
	// Silent are the addresses of registered netmasters that did not report their counts.
	Silent []string `json:"silent,omitempty"`
}

// WouldBeRefused counts requests of one client with the same row.
type WouldBeRefused struct {
	Principal string    `json:"principal"` // "nobody", "user/ann"
	Source    string    `json:"source"`    // address of the client
	Request   string    `json:"request"`   // method and route
	Reason    string    `json:"reason"`    // of the last one
	Count     int64     `json:"count"`
	Last      time.Time `json:"last"`
}
