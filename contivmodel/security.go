package contivmodel

import "time"

// SecurityStatus says how far a cluster is closed, and which of its daemons could go on if
// it were enforced. It is the answer of the routes that ask for it or change it.
type SecurityStatus struct {
	Mode      string           `json:"mode"`                // open, permissive or enforced
	Was       string           `json:"was,omitempty"`       // the mode before a change; the same as Mode: nothing was to be done
	ClusterID string           `json:"clusterID,omitempty"` // in the names of its certificates; empty: it has no authorities
	Pin       string           `json:"pin,omitempty"`       // what clients and tokens know its authorities by
	Daemons   []SecurityDaemon `json:"daemons"`             // that are registered
	Values    string           `json:"values,omitempty"`    // sealed: the store has the model and the state so; another text: why not yet; empty: that is not wanted
}

// SecurityDaemon is a netmaster or a node that is registered.
type SecurityDaemon struct {
	Role    string `json:"role"` // master or node
	Name    string `json:"name"` // of a node its host, of a netmaster its address
	Address string `json:"address"`
	Secured bool   `json:"secured"` // it shows a certificate of this cluster, and talks over TLS
}

// Plain are the names of those that could not go on in an enforced cluster.
func (s SecurityStatus) Plain() []string {
	var names []string
	for _, d := range s.Daemons {
		if !d.Secured {
			names = append(names, d.Role+" "+d.Name)
		}
	}
	return names
}

// SecurityReport is what an enforced cluster would have refused, as the netmasters have counted it while they led.
type SecurityReport struct {
	Mode  string           `json:"mode"`
	Since time.Time        `json:"since"` // from when on all have been counted, at most 24 hours ago
	Rows  []WouldBeRefused `json:"rows"`  // the last one first
	More  int64            `json:"more"`  // requests beside those of the rows, which are bounded
	// Silent are the addresses of netmasters that are registered and do not answer what they have counted.
	Silent []string `json:"silent,omitempty"`
}

// WouldBeRefused are requests of one client that differ in nothing that counts.
type WouldBeRefused struct {
	Principal string    `json:"principal"` // "nobody", "user/ann"
	Source    string    `json:"source"`    // address of the client
	Request   string    `json:"request"`   // method and route
	Reason    string    `json:"reason"`    // of the last one
	Count     int64     `json:"count"`
	Last      time.Time `json:"last"`
}
