package objdb

import (
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/test/testkit"
)

func TestWhatAnswersTellAboutTheStore(t *testing.T) {
	read := func(cluster uint64, rev int64) any {
		return (*clientv3.GetResponse)(&etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: cluster, Revision: rev}})
	}
	write := func(rev int64) any {
		return (*clientv3.PutResponse)(&etcdserverpb.PutResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 1, Revision: rev}})
	}
	comparison := func(rev int64) any {
		return (*clientv3.TxnResponse)(&etcdserverpb.TxnResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 1, Revision: rev}, Succeeded: true})
	}
	for what, c := range map[string]struct {
		answer  any
		another bool
	}{
		"the same revision":            {read(1, 10), false},
		"a higher revision":            {read(1, 11), false},
		"a lower revision":             {read(1, 9), true},
		"another cluster":              {read(2, 10), true},
		"a write of the next revision": {write(11), false},
		"a write of a known revision":  {write(10), true},
		"one member's word":            {&clientv3.StatusResponse{}, false},
		"a comparison by one member":   {comparison(9), false},
	} {
		t.Run(what, func(t *testing.T) {
			s := newStanding(testkit.Quiet(), time.Now)
			s.answered(s.ask(), read(1, 10))
			s.answered(s.ask(), c.answer)
			if got := s.history == 1; got != c.another {
				t.Errorf("another store: %v, want %v", got, c.another)
			}
			if s.since > 0 != c.another || s.since > s.revision {
				t.Errorf("seen since revision %d of %d", s.since, s.revision)
			}
		})
	}
}

// A late answer of the store before a restore does not count for the restored one.
func TestALateAnswerDoesNotCount(t *testing.T) {
	answer := func(rev int64) any {
		return (*clientv3.GetResponse)(&etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 1, Revision: rev}})
	}
	s := newStanding(testkit.Quiet(), time.Now)
	s.answered(s.ask(), answer(10))
	late := s.ask()
	s.answered(s.ask(), answer(5))
	s.answered(late, answer(11))
	s.answered(s.ask(), answer(6))
	if s.history != 1 {
		t.Errorf("saw %d histories after the first", s.history)
	}
	before := s.ask()
	s.noteDisconnect()
	if s.answered(before, answer(6)); s.certain {
		t.Error("certain by an answer to a question from before the loss")
	}
	if s.answered(s.ask(), answer(6)); !s.certain {
		t.Error("not certain after an answer")
	}
}
