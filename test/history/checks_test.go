package history

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// story is a short history that is as it must be, to be spoiled.
type story struct {
	*testing.T
	changes  []Change
	calls    []*Call
	revision int64
}

// newStory has a tenant with one network and one endpoint in it.
func newStory(t *testing.T) *story {
	s := &story{T: t, revision: 1}
	s.put(modelKey("global", "global"), &contivmodel.Global{Key: "global", Name: "global", FwdMode: "routing", Vlans: "10-17", Vxlans: "100-107"})
	tenant := &contivmodel.Tenant{Key: "t0", TenantName: "t0"}
	s.put(statePrefix+"vrfs/t0", document{"id": "t0", "vrf": 1})
	s.post(tenant)
	network := &contivmodel.Network{Key: "t0:n0", TenantName: "t0", NetworkName: "n0", NwType: "data", Encap: "vxlan", Subnet: "10.0.0.0/29"}
	network.Links.Tenant = contivmodel.LinkTo(tenant)
	s.put(networkPrefix+"n0.t0", document{"tenant": "t0", "networkName": "n0", "pktTag": 1, "extPktTag": 100, "ipv6LastHost": ""})
	s.post(network)
	s.endpoint("c0", "10.0.0.1")
	return s
}

func (s *story) put(key string, v any) {
	value, err := json.Marshal(v)
	if err != nil {
		s.Fatal(err)
	}
	s.changes = append(s.changes, Change{s.revision, key, value})
}

// call notes a call that took one second, one after the other.
func (s *story) call(op Operation, outcome Outcome) *Call {
	begun := time.Duration(len(s.calls)) * 2 * time.Second
	c := &Call{Operation: op, Start: begun, End: begun + time.Second, From: s.revision, To: s.revision, Outcome: outcome, Revision: s.revision}
	s.calls = append(s.calls, c)
	return c
}

func (s *story) post(o contivmodel.Object) {
	s.revision++
	s.put(modelKey(o.ModelType(), o.ModelKey()), o)
	s.call(Operation{Verb: Post, Type: o.ModelType(), Key: o.ModelKey(), Object: o}, Done)
}

func (s *story) endpoint(container, address string) {
	s.revision++
	var last int
	if _, err := fmt.Sscanf(address, "10.0.0.%d", &last); err != nil {
		s.Fatal(err)
	}
	ep := mastercfg.CfgEndpointState{ID: "n0.t0-" + container, NetID: "n0.t0", EndpointID: container, IPAddress: address,
		MacAddress: fmt.Sprintf("02:02:0a:00:00:%02x", last)}
	s.put(endpointPrefix+ep.ID, ep)
	req := &mastercfg.CreateEndpointRequest{TenantName: "t0", NetworkName: "n0", ConfigEP: mastercfg.ConfigEP{Container: container}}
	c := s.call(Operation{Verb: CreateEndpoint, Type: "endpoint", Key: ep.ID, Request: req}, Done)
	c.Body, _ = json.Marshal(mastercfg.CreateEndpointResponse{EndpointConfig: ep})
}

// allocated records that an address was allocated without an endpoint at the present revision.
func (s *story) allocated(address string) {
	c := s.call(Operation{Verb: AllocAddress, Type: "address", Key: "n0.t0", Request: &mastercfg.AllocAddressRequest{NetworkID: "n0.t0"}}, Done)
	c.Body, _ = json.Marshal(mastercfg.AllocAddressResponse{NetworkID: "n0.t0", IPv4Address: address + "/29"})
}

// large makes a policy by a change of several revisions, the last of which the answer names; with a journal that
// is one change.
func (s *story) large(journal bool) {
	mark := journalPrefix + "leader" + markSuffix
	s.revision++
	if journal {
		s.put(mark, document{"parts": 1})
	}
	policy := &contivmodel.Policy{Key: "t0:p0", TenantName: "t0", PolicyName: "p0"}
	policy.Links.Tenant = contivmodel.LinkTo(&contivmodel.Tenant{Key: "t0", TenantName: "t0"})
	s.revision++
	s.put(modelKey("policy", "t0:p0"), policy)
	s.revision++
	if journal {
		s.changes = append(s.changes, Change{s.revision, mark, nil})
	}
	s.call(Operation{Verb: Post, Type: "policy", Key: "t0:p0", Object: policy}, Done)
}

// remove deletes keys of the store, at one revision.
func (s *story) remove(verb Verb, typ, key string, stored ...string) {
	s.revision++
	for _, k := range stored {
		s.changes = append(s.changes, Change{s.revision, k, nil})
	}
	c := s.call(Operation{Verb: verb, Type: typ, Key: key}, Done)
	if verb == DeleteEndpoint {
		var ep mastercfg.CfgEndpointState
		if err := json.Unmarshal(s.value(stored[0]), &ep); err != nil {
			s.Fatal(err)
		}
		c.Body, _ = json.Marshal(mastercfg.CreateEndpointResponse{EndpointConfig: ep})
	}
}

// value returns the last value of a key.
func (s *story) value(key string) []byte {
	for i := len(s.changes) - 1; i >= 0; i-- {
		if s.changes[i].Key == key && s.changes[i].Value != nil {
			return s.changes[i].Value
		}
	}
	s.Fatalf("%s was never put", key)
	return nil
}

func (s *story) deleteEndpoint(container string) {
	s.remove(DeleteEndpoint, "endpoint", "n0.t0-"+container, endpointPrefix+"n0.t0-"+container)
}

func (s *story) refused(verb Verb, typ, key string, kind fault.Kind, message string) {
	c := s.call(Operation{Verb: verb, Type: typ, Key: key}, Refused)
	c.Kind, c.Message = kind, message
}

// derive completes the state at the end with what the objects imply.
func (s *story) derive() {
	w := newWorld()
	for _, c := range s.changes {
		w.Apply(c)
	}
	wanted, err := Derive(w, Held{})
	if err != nil {
		s.Fatal(err)
	}
	for key, doc := range wanted {
		s.put(key, doc)
	}
}

// last finds the change that a check is to miss or to see changed.
func (s *story) last(key string) *Change {
	for i := len(s.changes) - 1; i >= 0; i-- {
		if s.changes[i].Key == key {
			return &s.changes[i]
		}
	}
	s.Fatalf("no change of %s", key)
	return nil
}

func (s *story) replace(key, old, with string) {
	c := s.last(key)
	if !strings.Contains(string(c.Value), old) {
		s.Fatalf("%s holds %s", key, c.Value)
	}
	c.Value = []byte(strings.Replace(string(c.Value), old, with, 1))
}

// findings verifies the story. Only its end is complete, so findings about the derivation at earlier revisions do
// not count.
func (s *story) findings() []Finding {
	_, found := Verify(newLog(s.changes), s.calls)
	var kept []Finding
	for _, f := range found {
		if f.Check != "derivation" || strings.HasPrefix(f.Text, fmt.Sprintf("revision %d:", s.revision)) {
			kept = append(kept, f)
		}
	}
	return kept
}

func TestNothingIsFoundInASoundHistory(t *testing.T) {
	s := newStory(t)
	s.endpoint("c1", "10.0.0.2")
	s.refused(Get, "network", "t0:n9", fault.NotFound, "network not found")
	s.large(true)
	s.derive()
	s.put(operPrefix+"gc/h0", document{"id": "h0", "remaining": "10m"}) // no agent is registered on any host
	for _, f := range s.findings() {
		t.Errorf("%s: %s", f.Check, f.Text)
	}
}

// While a large change is stored, other requests that it does not touch are carried out: they delete a network,
// create it again, and put an endpoint into it.
func TestWhatHappensDuringALargeChangeHappensAtItsOwnRevision(t *testing.T) {
	s := newStory(t)
	network, state := modelKey("network", "t0:n0"), networkPrefix+"n0.t0"
	mark := journalPrefix + "leader" + markSuffix
	s.revision++
	s.put(mark, document{"parts": 1})
	s.deleteEndpoint("c0")
	s.remove(Delete, "network", "t0:n0", network, state)
	again, ok := decodeObject("network", s.value(network)).(*contivmodel.Network)
	if !ok {
		t.Fatal("no network")
	}
	s.changes = append(s.changes, Change{s.revision + 1, state, s.value(state)})
	s.post(again)
	s.endpoint("c1", "10.0.0.1")
	s.revision++
	s.changes = append(s.changes, Change{s.revision, mark, nil})
	s.deleteEndpoint("c1")
	s.endpoint("c2", "10.0.0.1")
	s.derive()
	for _, f := range s.findings() {
		t.Errorf("%s: %s", f.Check, f.Text)
	}
}

// Concurrent requests: a network is deleted, made again, and gets an endpoint, at one revision. The endpoint is in
// the new one; an address allocated at that revision may be of either network.
func TestANetworkIsMadeAgainAtTheRevisionOfItsFirstEndpoint(t *testing.T) {
	s := newStory(t)
	network, state := modelKey("network", "t0:n0"), networkPrefix+"n0.t0"
	s.deleteEndpoint("c0")
	object, record := s.value(network), s.value(state)
	s.remove(Delete, "network", "t0:n0")
	s.changes = append(s.changes, Change{s.revision, network, object}, Change{s.revision, state, record})
	s.call(Operation{Verb: Post, Type: "network", Key: "t0:n0", Object: decodeObject("network", object)}, Done)
	s.allocated("10.0.0.2")
	s.allocated("10.0.0.2")
	s.revision-- // the next one is at the same revision
	s.endpoint("c1", "10.0.0.1")
	s.deleteEndpoint("c1")
	s.endpoint("c2", "10.0.0.1")
	s.endpoint("c3", "10.0.0.2")
	for _, text := range Addresses(NewEvidence(newLog(s.changes), s.calls), nil) {
		t.Error(text)
	}
	s.endpoint("c4", "10.0.0.2")
	if found := Addresses(NewEvidence(newLog(s.changes), s.calls), nil); len(found) != 1 {
		t.Errorf("an address given twice: %v", found)
	}
}

func TestEveryCheckSeesWhatItIsFor(t *testing.T) {
	for what, c := range map[string]struct {
		spoil       func(*story)
		check, text string
	}{
		"an address given twice": {func(s *story) { s.endpoint("c1", "10.0.0.1") },
			"choices", "given twice: address 10.0.0.1 of network t0:n0"},
		"an address given twice, to clients": {func(s *story) { s.endpoint("c1", "10.0.0.1") },
			"addresses", "fit no order"},
		"an address outside the network": {func(s *story) { s.endpoint("c1", "10.0.0.7") },
			"choices", "must not hand out"},
		"a network that counts its endpoints": {func(s *story) { s.derive(); s.replace(networkPrefix+"n0.t0", `"epCount":0`, `"epCount":1`) },
			"derivation", "epCount is 1, must be 0"},
		"an address that is had and held": {func(s *story) { s.derive(); s.put(heldPrefix+"n0.t0/10.0.0.1", document{"id": "10.0.0.1"}) },
			"derivation", "nothing implies: " + heldPrefix},
		"an address that leaked": {func(s *story) {
			s.derive()
			s.put(heldPrefix+"n0.t0/10.0.0.2", document{"id": "10.0.0.2", "netID": "n0.t0"})
		}, "addresses", "10.0.0.2 of network n0.t0 is taken, and nobody has it"},
		"a record that nothing implies": {func(s *story) { s.derive(); s.put(groupPrefix+"g:t0", document{"id": "g:t0"}) },
			"derivation", "nothing implies: " + groupPrefix + "g:t0"},
		"an object whose tenant is gone": {func(s *story) {
			s.revision++
			s.changes = append(s.changes, Change{s.revision, modelKey("tenant", "t0"), nil})
			s.call(Operation{Verb: Delete, Type: "tenant", Key: "t0"}, Done)
		}, "references", "tenant t0 is gone"},
		"a link to a stranger": {func(s *story) { s.replace(modelKey("network", "t0:n0"), `"key":"t0"}`, `"key":"t1"}`) },
			"links", "which it must not"},
		"a change nobody asked for": {func(s *story) { s.calls = s.calls[:2] },
			"explained", "nobody asked for post " + endpointPrefix},
		"a change long after a lost call": {func(s *story) {
			s.remove(DeleteEndpoint, "endpoint", "n0.t0-c0", endpointPrefix+"n0.t0-c0")
			s.forget()
			s.changes[len(s.changes)-1].Revision += 1000
		}, "explained", "nobody asked for delete " + endpointPrefix},
		"an update that is not in the store, before a lost one": {func(s *story) {
			s.post(&contivmodel.Network{Key: "t0:n0", TenantName: "t0", NetworkName: "n0", NwType: "data", Encap: "vxlan", Subnet: "10.0.0.0/28"})
			s.changes = s.changes[:len(s.changes)-1]
			s.revision++
			s.remove(Delete, "network", "t0:n0")
			s.forget()
		}, "explained", "but the store holds something else"},
		"a success that is not in the store": {func(s *story) { s.changes = s.changes[:len(s.changes)-1] },
			"explained", "but the answer was"},
		"something wrong that was accepted": {func(s *story) { s.calls[1].Wrong = "subnet" },
			"explained", "although it has a wrong subnet"},
		"a refusal without cause": {func(s *story) { s.refused(Delete, "network", "t0:n0", fault.InUse, "cannot delete n0 has 1 services ") },
			"refusals", "without cause"},
		"a refusal that is not documented": {func(s *story) { s.refused(Get, "network", "t0:n9", fault.Internal, "oops") },
			"refusals", "not documented"},
		"a change of what was another object": {func(s *story) { s.calls[1].Tag = 1 },
			"revisions", "not the object it was for"},
		"an entity tag of nothing": {func(s *story) { s.calls[1].ETag = 99 },
			"revisions", "no revision of the object is 99"},
		"half an apply": {func(s *story) {
			policy := &contivmodel.Policy{Key: "t0:p0", TenantName: "t0", PolicyName: "p0"}
			s.post(policy)
			lost := s.calls[len(s.calls)-1]
			lost.Outcome, lost.Applied, lost.From = Unknown, true, s.revision-1
			other := *lost
			other.Operation = Operation{Verb: Delete, Type: "network", Key: "t0:n0"}
			s.calls = append(s.calls, &other)
			lost.mates = []*Call{lost, &other}
			other.mates = lost.mates
		}, "applies", "happened without a part of the same apply"},
		"a refusal in an apply without cause": {func(s *story) {
			apply := s.call(Operation{Verb: Apply, Members: []Operation{
				{Verb: Delete, Type: "tenant", Key: "t0"}, {Verb: Delete, Type: "network", Key: "t0:n0"}}}, Refused)
			apply.tags, apply.Kind = make([]int64, 2), fault.NotFound
			apply.Details = []string{"tenant t0: tenant not found", "network t0:n0: Error: Network has active endpoints"}
			s.calls = append(s.calls[:len(s.calls)-1], apply.each()...)
		}, "refusals", "without cause: client 0, 6s to 7s, revisions 4 to 4: delete tenant t0"},
		"a large change without a journal": {func(s *story) { s.large(false) },
			"explained", "nobody asked for post " + modelKey("policy", "t0:p0")},
		"a read that is behind": {func(s *story) { s.refused(Get, "network", "t0:n0", fault.NotFound, "network not found") },
			"existence", "fit no order"},
	} {
		t.Run(what, func(t *testing.T) {
			s := newStory(t)
			c.spoil(s)
			found := s.findings()
			for _, f := range found {
				if f.Check == c.check && strings.Contains(f.Text, c.text) {
					return
				}
			}
			t.Errorf("%s does not see it; findings: %v", c.check, found)
		})
	}
}

func TestEveryFaultOfAWatchIsSeen(t *testing.T) {
	s := newStory(t)
	policy := func(name string) *contivmodel.Policy {
		return &contivmodel.Policy{Key: "t0:" + name, TenantName: "t0", PolicyName: name}
	}
	s.post(policy("p0"))
	s.post(policy("p1"))
	s.revision++
	s.changes = append(s.changes, Change{s.revision, modelKey("policy", "t0:p0"), nil})
	log := newLog(s.changes)
	first := s.revision - 2
	for want, told := range map[string][]client.Event{
		"":              {{Type: client.Added, Revision: first, Object: policy("p0")}, {Type: client.Added, Revision: first + 1, Object: policy("p1")}, {Type: client.Deleted, Revision: first + 2, Object: policy("p0")}},
		"not told":      {{Type: client.Added, Revision: first, Object: policy("p0")}, {Type: client.Deleted, Revision: first + 2, Object: policy("p0")}},
		"or twice":      {{Type: client.Added, Revision: first, Object: policy("p0")}, {Type: client.Added, Revision: first, Object: policy("p0")}, {Type: client.Added, Revision: first + 1, Object: policy("p1")}, {Type: client.Deleted, Revision: first + 2, Object: policy("p0")}},
		"comes after":   {{Type: client.Added, Revision: first + 1, Object: policy("p1")}, {Type: client.Added, Revision: first, Object: policy("p0")}, {Type: client.Deleted, Revision: first + 2, Object: policy("p0")}},
		"the store had": {{Type: client.Added, Revision: first, Object: policy("p9")}, {Type: client.Added, Revision: first + 1, Object: policy("p1")}, {Type: client.Deleted, Revision: first + 2, Object: policy("p0")}},
	} {
		w := &watcher{name: "watch", prefix: modelKey("policy", ""), since: first - 1, told: told}
		found := strings.Join(w.compare(log), "\n")
		if want == "" && found != "" || !strings.Contains(found, want) {
			t.Errorf("want %q, found %q", want, found)
		}
	}
}

func TestASeedGivesTheSameOperationsAgain(t *testing.T) {
	a, b := newGenerator(7, Small, 3), newGenerator(7, Small, 3)
	for i := range 500 {
		if x, y := a.next().String(), b.next().String(); x != y {
			t.Fatalf("operation %d: %s and %s", i, x, y)
		}
	}
}

// An infrastructure network may be deleted before its endpoints. The last of those is deleted at the revision at
// which the network is made again. An endpoint that outlives a network of another type is found.
func TestTheLastEndpointOfANetworkGoesAtTheRevisionOfTheNextOne(t *testing.T) {
	for nwType, wanted := range map[string]int{"infra": 0, "data": 1} {
		s := newStory(t)
		network, state := modelKey("network", "t0:n0"), networkPrefix+"n0.t0"
		s.replace(state, `"tenant":"t0"`, `"tenant":"t0","nwType":"`+nwType+`"`)
		object, record := s.value(network), s.value(state)
		s.remove(Delete, "network", "t0:n0", network, state)
		s.deleteEndpoint("c0")
		s.changes = append(s.changes, Change{s.revision, network, object}, Change{s.revision, state, record})
		s.call(Operation{Verb: Post, Type: "network", Key: "t0:n0", Object: decodeObject("network", object)}, Done)
		s.endpoint("c1", "10.0.0.1")
		for _, want := range []int{wanted, 1} { // the second time the address is assigned twice
			e := NewEvidence(newLog(s.changes), s.calls)
			fates, _ := Explain(e)
			if found := Addresses(e, fates); len(found) != want {
				t.Errorf("%s: want %d, found %q", nwType, want, found)
			}
			s.endpoint("c2", "10.0.0.1")
		}
	}
}
