package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

var corruptionChapters = []chapter{
	{"corrupt values are reported with their key, and everything else goes on", corruptValues},
	{"a pod whose record was corrupted is back when the record is", aRecordIsCorrupted},
}

// nonsense are values that do not fit their keys.
var nonsense = map[string]string{
	"/contiv.io/state/nets/junk.blue":        `{"id":"junk.blue","subnetLen":"many"`,
	"/contiv.io/state/eps/front.blue-junk":   `["not", "an", "endpoint"]`,
	"/contiv.io/state/policyRule/junk":       "\x00\xff\xfe",
	"/contiv.io/state/endpointGroups/x:blue": `7`,
	"/contiv.io/state/eps/moon.blue-blind":   `{"id":"moon.blue-blind","netID":"moon.blue","ipAddress":"10.1.1.999","homingHost":"node1"}`,
}

// unreadable are those of them that agents read and cannot decode.
var unreadable = []string{"/contiv.io/state/nets/junk.blue", "/contiv.io/state/eps/front.blue-junk", "/contiv.io/state/policyRule/junk"}

func corruptValues(s story) {
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	s.network("blue", "back", "10.1.2.0/24")
	a, b := s.pod(0, "a", "blue", "front", ""), s.pod(1, "b", "blue", "back", "")
	s.reachEachOther(shortly, a, b)
	etcd := s.administer(s.bed.Nodes[0])
	s.afterwards(func(ctx context.Context) (err error) {
		for key := range nonsense {
			_, delErr := etcd.Delete(ctx, key)
			err = errors.Join(err, delErr)
		}
		return err
	})
	s.withoutLoss(a, b, func() {
		for key, value := range nonsense {
			_, err := etcd.Put(s.ctx, key, value)
			s.must(err)
		}
		for _, n := range s.bed.Nodes {
			s.soon(shortly, func() error { return reports(n, "netplugin", unreadable...) })
		}
	})
	c := s.pod(2, "c", "blue", "front", "")
	s.reachEachOther(shortly, a, b, c)

	// Daemons that start with these values in the store go on, too.
	s.must(a.Node.Netplugin().Kill())
	s.must(a.Node.StartNetplugin())
	s.must(a.Node.WaitReady(s.ctx))
	leader := s.leader()
	s.must(leader.Netmaster().Terminate())
	s.startMasters()
	d := s.pod(0, "d", "blue", "back", "")
	s.reachEachOther(shortly, a, b, c, d)
	s.group("blue", "front", "web")
	successor := s.leader()
	s.soon(shortly, func() error { return reports(successor, "netmaster", unreadable...) })
}

// reports returns an error for keys that a daemon of a node has not complained about.
func reports(n *testbed.Node, daemon string, keys ...string) error {
	log, err := os.ReadFile(n.LogFile(daemon))
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range keys {
		if !strings.Contains(string(log), key) {
			errs = append(errs, fmt.Errorf("%s of %s does not report %s", daemon, n.Name, key))
		}
	}
	return errors.Join(errs...)
}

func aRecordIsCorrupted(s story) {
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	a, b := s.pod(0, "a", "blue", "front", ""), s.pod(1, "b", "blue", "front", "")
	etcd := s.administer(s.bed.Nodes[0])
	keys, err := s.bed.Keys(s.ctx, "/contiv.io/state/eps/")
	s.must(err)
	victim := s.pod(2, "victim", "blue", "front", "")
	s.reachEachOther(shortly, a, b, victim)
	with, err := s.bed.Keys(s.ctx, "/contiv.io/state/eps/")
	s.must(err)
	key := newKey(keys, with)
	value, err := etcd.Get(s.ctx, key)
	s.must(err)
	if len(value.Kvs) != 1 {
		s.Fatalf("no key %q", key)
	}

	s.withoutLoss(a, b, func() {
		_, err = etcd.Put(s.ctx, key, `{"id":`)
		s.must(err)
		s.soon(shortly, func() error { return reports(a.Node, "netplugin", key) })
		s.reachEachOther(shortly, a, b)
		_, err = etcd.Put(s.ctx, key, string(value.Kvs[0].Value))
		s.must(err)
		s.reachEachOther(shortly, a, b, victim)
	})
}

// newKey returns the first key of a list that an earlier one lacks.
func newKey(before, after string) string {
	for line := range strings.Lines(after) {
		if key, _, _ := strings.Cut(line, " "); !strings.Contains(before, key) {
			return key
		}
	}
	return ""
}
