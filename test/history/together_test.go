package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// Operations that are committed together have one revision. The tests in this
// file are about what happened between two states of the store.

// forget turns the last call into one whose answer did not come.
func (s *story) forget() {
	c := s.calls[len(s.calls)-1]
	c.Outcome, c.Revision, c.Body = Unknown, 0, nil
}

// together makes calls from one on simultaneous, and commits them at the
// revision of the first.
func (s *story) together(first *Call) {
	revision := first.To
	for i := range s.changes {
		s.changes[i].Revision = min(s.changes[i].Revision, revision)
	}
	for _, c := range s.calls[slices.Index(s.calls, first):] {
		c.From, c.To, c.Start = revision-1, revision, first.Start
		if c.Outcome == Done {
			c.Revision = revision
		}
	}
	s.revision = revision
}

// An endpoint is deleted and made again in the last transaction of a leader that
// is killed before it answers. Its addresses are free, and taken, since then.
func TestAnEndpointThatWasReplacedByLostCallsIsExplained(t *testing.T) {
	for what, c := range map[string]struct {
		lost    []Verb
		address string
	}{
		"both lost":                         {[]Verb{DeleteEndpoint, CreateEndpoint}, "10.0.0.2"},
		"the creation lost":                 {[]Verb{CreateEndpoint}, "10.0.0.2"},
		"the creation lost, same address":   {[]Verb{CreateEndpoint}, "10.0.0.1"},
		"the deletion lost":                 {[]Verb{DeleteEndpoint}, "10.0.0.2"},
		"the deletion lost, same addresses": {[]Verb{DeleteEndpoint}, "10.0.0.1"},
	} {
		t.Run(what, func(t *testing.T) {
			s := newStory(t)
			s.deleteEndpoint("c0")
			first := s.calls[len(s.calls)-1]
			if c.lost[0] == DeleteEndpoint {
				s.forget()
			}
			s.endpoint("c0", c.address)
			if c.lost[len(c.lost)-1] == CreateEndpoint {
				s.forget()
			}
			s.together(first)
			s.deleteEndpoint("c0")
			s.endpoint("c1", "10.0.0.1")
			s.endpoint("c2", "10.0.0.2")
			s.derive()
			for _, f := range s.findings() {
				t.Errorf("%s: %s", f.Check, f.Text)
			}
		})
	}
}

// An endpoint is made and deleted at the revision at which its network is made; the answer to its creation is
// lost.
func TestAnEndpointThatWasThereBetweenTwoRevisionsWasMade(t *testing.T) {
	for what, c := range map[string]struct {
		made bool
		want string
	}{
		"by a lost call": {made: true},
		"by nobody":      {want: "succeeded, but " + endpointPrefix + "n0.t0-c9 was not in the store"},
	} {
		t.Run(what, func(t *testing.T) {
			s := newStory(t)
			s.endpoint("c9", "10.0.0.2")
			first := s.calls[len(s.calls)-1]
			s.forget()
			s.deleteEndpoint("c9")
			s.together(first)
			s.changes = slices.DeleteFunc(s.changes, func(c Change) bool { return c.Key == first.storeKey() })
			if !c.made {
				s.calls = slices.DeleteFunc(s.calls, func(c *Call) bool { return c == first })
			}
			s.derive()
			found := ""
			for _, f := range s.findings() {
				found += f.Text
			}
			if c.want == "" && found != "" || !strings.Contains(found, c.want) {
				t.Errorf("want %q, found %q", c.want, found)
			}
		})
	}
}

func TestAnEndpointThatNobodyReplacedIsSeen(t *testing.T) {
	s := newStory(t)
	s.deleteEndpoint("c0")
	first := s.calls[len(s.calls)-1]
	s.endpoint("c0", "10.0.0.2")
	s.together(first)
	s.calls = s.calls[:len(s.calls)-2]
	s.derive()
	found := fmt.Sprint(s.findings())
	for _, want := range []string{"nobody asked for delete " + endpointPrefix, "nobody asked for post " + endpointPrefix} {
		if !strings.Contains(found, want) {
			t.Errorf("want %q, found %s", want, found)
		}
	}
}

// A service takes the last address of a network and is deleted, both at one revision: requests in between are
// refused. It had one address, not two.
func TestAServiceThatWasThereBetweenTwoRevisionsHadOneAddress(t *testing.T) {
	for free, wanted := range map[int]string{1: "", 2: "refused without cause"} {
		s := newStory(t) // its network has six addresses, one is taken
		for i := 2; i <= 6-free; i++ {
			s.endpoint(fmt.Sprintf("c%d", i), fmt.Sprintf("10.0.0.%d", i))
		}
		service := &contivmodel.ServiceLB{Key: "t0:s0", TenantName: "t0", ServiceName: "s0", NetworkName: "n0"}
		s.post(service)
		first := s.calls[len(s.calls)-1]
		s.refused(AllocAddress, "address", "n0.t0", fault.Exhausted, "auto allocation failed - address exhaustion in subnet 10.0.0.0/29")
		s.calls[len(s.calls)-1].Request = &mastercfg.AllocAddressRequest{NetworkID: "n0.t0"}
		s.remove(Delete, "serviceLB", "t0:s0", modelKey("serviceLB", "t0:s0"))
		s.together(first)
		found := ""
		for _, f := range s.findings() {
			if f.Check == "refusals" {
				found += f.Text
			}
		}
		if wanted == "" && found != "" || !strings.Contains(found, wanted) {
			t.Errorf("%d free: want %q, found %q", free, wanted, found)
		}
	}
}
