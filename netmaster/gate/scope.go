package gate

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/secret"
)

// scope is the set of nodes that may see a record: all, those that
// serve a tenant, or a single node. The zero value is no node.
type scope struct {
	all          bool
	tenant, host string
}

// everything stands for all tenants. If VLANs are routed, a node with an endpoint in a VLAN serves all tenants:
// they share one routing domain.
const everything = "*"

// kinds are the prefixes of records that nodes may see, each with a function from
// the rest of the key to the scope. If it is nil, the scope follows from the value,
// and the index has it. Records of all other prefixes are invisible to nodes.
var kinds = []struct {
	prefix string
	of     func(id string) scope
}{
	{mastercfg.EndpointPrefix, nil},
	{mastercfg.NetworkPrefix, nil},
	{mastercfg.OperEndpointPrefix, nil},
	{mastercfg.EndpointGroupPrefix, afterColon}, // G:T
	{mastercfg.PolicyRulePrefix, beforeColon},   // T:G:T:P:T:P:R:DIRECTION
	{mastercfg.ServiceLBPrefix, afterColon},     // S:T
	{mastercfg.ProviderPrefix, func(id string) scope { // S:T/ADDRESS
		service, _, _ := strings.Cut(id, "/")
		return afterColon(service)
	}},
	{mastercfg.VRFPrefix, func(id string) scope { return scope{tenant: id} }},
	{mastercfg.BgpPrefix, ofAll},  // without passwords
	{mastercfg.K8sPodPrefix, nil}, // of pods on other nodes, only their class
	// Every node needs the ports of all services, and the rules about all classes.
	{mastercfg.K8sServicePrefix, ofAll},
	{mastercfg.K8sBackendPrefix, ofAll},
	{mastercfg.K8sNodePrefix, ofAll},
	{mastercfg.K8sClassPrefix, ofAll},
	{mastercfg.K8sPolicyPrefix, ofAll},
	{mastercfg.K8sEpochKey, ofAll},
	{mastercfg.K8sRangesKey, ofAll},
	{mastercfg.OvsDriverPrefix, ofHost},
	{mastercfg.K8sEnforcedPrefix, ofHost},
	{mastercfg.GlobalRoot, ofAll},
	{objdb.ServicePrefix, ofAll},
	{objdb.LockKey(""), ofAll},
}

func ofAll(string) scope       { return scope{all: true} }
func ofHost(host string) scope { return scope{host: host} }

func afterColon(id string) scope {
	_, tenant, _ := strings.Cut(id, ":")
	return scope{tenant: tenant}
}

func beforeColon(id string) scope {
	tenant, _, _ := strings.Cut(id, ":")
	return scope{tenant: tenant}
}

// scopeByKey returns the scope of a record by its key; indexed: the scope is in the index.
func scopeByKey(key string) (s scope, indexed bool) {
	for _, kind := range kinds {
		id, is := strings.CutPrefix(key, kind.prefix)
		switch {
		case !is:
		case kind.of == nil:
			return scope{}, true
		default:
			return kind.of(id), false
		}
	}
	return scope{}, false
}

// readable are the prefixes that a node may read; what it sees there depends on scopes.
var readable = []string{mastercfg.StateRoot, mastercfg.GlobalRoot, objdb.ServicePrefix, mastercfg.OperEndpointPrefix}

// mayRead reports whether a node may read a key, or the range from the key to an end.
func mayRead(host, key, end string) bool {
	for _, prefix := range readable {
		if strings.HasPrefix(key, prefix) {
			return end == "" || key < end && end <= objdb.PrefixEnd(prefix)
		}
	}
	switch key {
	case objdb.LockKey(""), objdb.LockKey(mastercfg.LeaderLock), mastercfg.OvsDriverPrefix + host, mastercfg.K8sEnforcedKey(host):
		return end == ""
	}
	return false
}

// isFiltered reports whether nodes see different parts of a readable range.
func isFiltered(key string) bool {
	return strings.HasPrefix(key, mastercfg.StateRoot) || strings.HasPrefix(key, mastercfg.OperEndpointPrefix)
}

// hasMany reports whether a readable range may have many keys. Global records, and registrations of netmasters,
// are few: a node that has read too much can still find the leader.
func hasMany(key, end string) bool {
	return !strings.HasPrefix(key, mastercfg.GlobalRoot) && !(strings.HasPrefix(key, masterPrefix) && end <= objdb.PrefixEnd(masterPrefix))
}

// podHost returns the node in the key of a pod's record.
func podHost(key string) (host string, is bool) {
	id, is := strings.CutPrefix(key, mastercfg.K8sPodPrefix) // NODE/UID
	host, _, _ = strings.Cut(id, "/")
	return host, is
}

// seenBy returns a value as a node may see it, and whether it differs. The password of a BGP speaker is for the
// speaker only, which gets it decrypted; of pods on other nodes, a node gets only their class.
func (x *index) seenBy(host, key string, value []byte) (shown []byte, differs bool) {
	if at, is := podHost(key); is && at != host && len(value) > 0 {
		var pod mastercfg.K8sPod
		if json.Unmarshal(value, &pod) != nil {
			return nil, true // unreadable
		}
		shown, _ = json.Marshal(mastercfg.K8sPod{Class: pod.Class, Classed: pod.Classed}) // texts and numbers never fail
		return shown, true
	}
	speaker, is := strings.CutPrefix(key, mastercfg.BgpPrefix)
	if !is || len(value) == 0 || speaker == host && !bytes.Contains(value, []byte(secret.SealedPrefix)) {
		return value, false
	}
	var record mastercfg.CfgBgpState
	if json.Unmarshal(value, &record) != nil {
		return nil, true // unreadable
	}
	if speaker != host {
		record.Password = ""
	} else if x.open != nil {
		if text, err := x.open(mastercfg.ModelKey("Bgp", host), string(record.Password)); err == nil {
			record.Password = secret.Text(text)
		} // encrypted for another key, or withheld
	}
	shown, _ = json.Marshal(record) // texts and numbers never fail
	return shown, true
}
