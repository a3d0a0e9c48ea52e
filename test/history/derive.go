package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
)

// document is a JSON object as it is in the store.
type document = map[string]any

// Derive computes the derived part of the store from the objects of the model and the endpoints. Choices that the
// specification leaves to the controller (which free tag, id or address is assigned) are taken from the store;
// unique.go checks that these choices are valid.
//
// held are the addresses that were allocated without an endpoint, by network.
func Derive(w *World, held Held) (map[string]document, error) {
	d := derivation{world: w, held: held, out: map[string]document{}}
	d.global()
	for _, t := range all[contivmodel.Tenant](w) {
		key := statePrefix + "vrfs/" + t.TenantName
		domain := document{"id": t.TenantName, "vrf": w.record(key)["vrf"]}
		if t.PolicyMode != "" {
			domain["policyMode"] = t.PolicyMode
		}
		d.put(key, domain)
	}
	for _, n := range all[contivmodel.Network](w) {
		d.network(n)
	}
	for _, g := range all[contivmodel.EndpointGroup](w) {
		d.group(g)
	}
	for _, s := range all[contivmodel.ServiceLB](w) {
		d.service(s)
	}
	for _, b := range all[contivmodel.Bgp](w) {
		record := document{"id": b.Hostname, "hostname": b.Hostname, "router-ip": b.Routerip,
			"as": b.As, "neighbor-as": b.NeighborAs, "neighbor": b.Neighbor}
		if len(b.Neighbors) > 0 {
			record["neighbors"] = b.Neighbors
		}
		d.put(statePrefix+"bgp/"+b.Hostname, record)
	}
	return d.out, d.err
}

type derivation struct {
	world *World
	held  Held
	out   map[string]document
	err   error // of documents that cannot be encoded as JSON
}

// put normalises numbers and lists as reading JSON does.
func (d *derivation) put(key string, v document) {
	var normal document
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &normal)
	}
	if err != nil {
		d.err = errors.Join(d.err, fmt.Errorf("derive %s: %w", key, err))
	}
	d.out[key] = normal
}

// derived reports whether Derive computes a key. It starts from endpoints; the time since when a node has been
// gone depends on the clock, not on requests.
func derived(key string) bool {
	if strings.HasPrefix(key, operPrefix+"gc/") {
		return false
	}
	return strings.HasPrefix(key, statePrefix) && !strings.HasPrefix(key, endpointPrefix) ||
		strings.HasPrefix(key, operPrefix) || strings.HasPrefix(key, root+"master/config/")
}

// Compare lists the differences between the wanted and the actual content of the store.
func Compare(w *World, wanted map[string]document) []string {
	var found []string
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		stored := w.record(key)
		if stored == nil {
			found = append(found, "missing: "+key)
			continue
		}
		for _, member := range union(wanted[key], stored) {
			if !reflect.DeepEqual(wanted[key][member], stored[member]) {
				found = append(found, fmt.Sprintf("%s: %s is %v, must be %v", key, member, show(stored[member]), show(wanted[key][member])))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.Raw)) {
		if _, ok := wanted[key]; !ok && derived(key) {
			found = append(found, "nothing implies: "+key)
		}
	}
	for _, key := range w.broken {
		found = append(found, "cannot be decoded: "+key)
	}
	return found
}

func union(a, b document) []string {
	members := maps.Clone(a)
	maps.Copy(members, b)
	return slices.Sorted(maps.Keys(members))
}

// show formats a value; for a bit set, the positions of its bits.
func show(v any) string {
	if b := parseBits(v); b != nil {
		text := fmt.Sprintf("%d bits", len(b))
		for i, listed := 0, 0; i < len(b) && listed < 24; i++ {
			if b[i] {
				text += fmt.Sprintf(" %d", i)
				listed++
			}
		}
		return text
	}
	text, _ := json.Marshal(v)
	return string(text)
}
