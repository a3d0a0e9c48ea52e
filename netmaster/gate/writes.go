package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
)

// Txn executes a transaction of a node. The node may write its registrations, with a lease of its own, and its
// reports about endpoints on it and about itself. Conditions may name keys that it may read. The gate adds
// conditions by which the store checks the records on which the decision relies: so a removed node cannot
// write, even if this gate does not know of the removal yet.
func (s *kvServer) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	c, err := s.g.caller(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.budget.write(ctx, sizeOf(r)); err != nil {
		return nil, err
	}
	wire, err := s.g.cfg.DB.Wire(ctx)
	if err != nil {
		return nil, unavailable("%v", err)
	}
	var last *pb.TxnResponse // the answer in which a condition did not hold
	var judged []*pb.Compare // the guards of that transaction
	for {
		guards, key, why := s.g.index.judge(c.keyholder, r)
		if why != nil {
			return nil, s.g.refuse(c, "Txn", key, "%v", why)
		}
		if last != nil && slices.EqualFunc(guards, judged, sameRevision) {
			return last, nil
		}
		answer, err := wire.KV.Txn(ctx, &pb.TxnRequest{Compare: append(slices.Clip(guards), r.Compare...), Success: r.Success})
		if err != nil || answer.Succeeded {
			return answer, err
		}
		// The decision may have relied on an old state.
		if err := s.g.inStep(ctx, answer.Header.Revision); err != nil {
			return nil, err
		}
		last, judged = answer, guards
	}
}

// sizeOf returns the number of bytes that a transaction adds
// to the log of the store, whether or not its conditions hold.
func sizeOf(r *pb.TxnRequest) (bytes int) {
	for _, c := range r.Compare {
		bytes += len(c.Key)
	}
	for _, op := range r.Success {
		put, del := op.GetRequestPut(), op.GetRequestDeleteRange()
		bytes += len(put.GetKey()) + len(put.GetValue()) + len(del.GetKey())
	}
	return bytes
}

// judge checks whether a node may execute a transaction. If not, it returns the key and the reason. guards are
// conditions to add to the transaction: the records on which the decision relies.
func (x *index) judge(who keyholder, r *pb.TxnRequest) (guards []*pb.Compare, key string, why error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	host := who.host
	if !x.isOf(host, who.key) {
		return nil, "", fmt.Errorf("the node was removed, or its name belongs to another key")
	}
	guards = []*pb.Compare{at(mastercfg.NodePrefix+host, x.joinedAt[host])}
	if len(r.Failure) > 0 {
		return nil, keyIn(r.Failure), fmt.Errorf("nothing can be done where a condition does not hold")
	}
	if n := max(len(r.Compare), len(r.Success)); n > maxOps {
		return nil, "", fmt.Errorf("%d conditions or operations are more than %d", n, maxOps)
	}
	if key := writtenTwice(r.Success); key != "" {
		return nil, key, fmt.Errorf("it is written twice")
	}
	for _, compare := range r.Compare {
		if why := x.judgeCompare(host, compare); why != nil {
			return nil, string(compare.Key), why
		}
	}
	entries := x.registered[host]
	for _, op := range r.Success {
		guard, key, why := x.judgeOp(host, op)
		if why != nil {
			return nil, key, why
		}
		guards = append(guards, guard...)
		if strings.HasPrefix(key, objdb.ServicePrefix) && op.GetRequestPut() != nil && x.entries[key] != host {
			if entries++; entries > maxEntries {
				return nil, key, fmt.Errorf("the node has %d registrations, and would have %d", x.registered[host], entries)
			}
		}
	}
	return guards, "", nil
}

// writtenTwice returns a key that operations put and also put again or delete; empty: none. The store refuses
// that as well, but here each operation is checked by itself.
func writtenTwice(ops []*pb.RequestOp) string {
	puts := make(map[string]bool)
	for _, op := range ops {
		if put := op.GetRequestPut(); put != nil {
			if key := string(put.Key); puts[key] {
				return key
			}
			puts[string(put.Key)] = true
		}
	}
	for _, op := range ops {
		if del := op.GetRequestDeleteRange(); del != nil && puts[string(del.Key)] {
			return string(del.Key)
		}
	}
	return ""
}

func (x *index) judgeCompare(host string, c *pb.Compare) error {
	key := string(c.Key)
	switch {
	case len(c.RangeEnd) > 0:
		return fmt.Errorf("conditions are about single keys")
	case c.Target == pb.Compare_VALUE || c.Target == pb.Compare_LEASE:
		return fmt.Errorf("conditions are about revisions")
	case !mayRead(host, key, ""):
		return fmt.Errorf("nodes do not read this")
	}
	_, there := x.records[key]
	if (there || !mayHaveGone(key)) && !x.sees(host, x.scopeOf(key, math.MaxInt64), anyTime()) {
		return fmt.Errorf("it is not of a tenant that the node serves")
	}
	return nil
}

// mayHaveGone reports whether nodes need conditions on a key without a record, to which no scope belongs: agents make
// reports about endpoints that may have been deleted. Their ids are not guessed, as names of networks are.
func mayHaveGone(key string) bool {
	return strings.HasPrefix(key, mastercfg.EndpointPrefix) || strings.HasPrefix(key, mastercfg.OperEndpointPrefix)
}

func (x *index) judgeOp(host string, op *pb.RequestOp) (guards []*pb.Compare, key string, why error) {
	if put := op.GetRequestPut(); put != nil {
		key := string(put.Key)
		if put.PrevKv || put.IgnoreLease || put.IgnoreValue {
			return nil, key, fmt.Errorf("what was before cannot be asked for, nor kept")
		}
		guards, why := x.judgePut(host, key, put)
		return guards, key, why
	}
	if del := op.GetRequestDeleteRange(); del != nil {
		key := string(del.Key)
		if del.PrevKv || len(del.RangeEnd) > 0 {
			return nil, key, fmt.Errorf("single keys are deleted, and what was before cannot be asked for")
		}
		guards, why := x.judgeDelete(host, key)
		return guards, key, why
	}
	return nil, keyIn([]*pb.RequestOp{op}), fmt.Errorf("a transaction of a node puts and deletes only")
}

// keyIn returns the first key in operations, for the text of a refusal; empty: none.
func keyIn(ops []*pb.RequestOp) string {
	for _, op := range ops {
		nested := op.GetRequestTxn()
		for _, key := range []string{string(op.GetRequestPut().GetKey()), string(op.GetRequestDeleteRange().GetKey()), string(op.GetRequestRange().GetKey()),
			keyIn(nested.GetSuccess()), keyIn(nested.GetFailure())} {
			if key != "" {
				return key
			}
		}
	}
	return ""
}

func (x *index) judgePut(host, key string, put *pb.PutRequest) ([]*pb.Compare, error) {
	if strings.HasPrefix(key, objdb.ServicePrefix) {
		if !ownsLease(host, put.Lease) {
			return nil, fmt.Errorf("a registration needs a lease of the node")
		}
		if why := bounded(put.Value, maxEntry); why != nil {
			return nil, why
		}
		return nil, x.judgeEntry(host, key, put.Value)
	}
	if put.Lease != 0 {
		return nil, fmt.Errorf("only registrations have a lease")
	}
	if id, is := strings.CutPrefix(key, mastercfg.OperEndpointPrefix); is {
		return x.judgeReport(host, id, put.Value)
	}
	switch key {
	case mastercfg.OvsDriverPrefix + host:
		return nil, isOne[mastercfg.OvsDriverOperState](put.Value, maxSummary)
	case mastercfg.K8sEnforcedKey(host):
		return nil, isOne[mastercfg.K8sEnforced](put.Value, maxEnforced)
	}
	return nil, fmt.Errorf("nodes do not write this")
}

func bounded(value []byte, most int) error {
	if len(value) > most {
		return fmt.Errorf("%d bytes are more than %d", len(value), most)
	}
	return nil
}

// isOne fails unless a value is one record of a type, and not longer than the limit.
func isOne[T any](value []byte, most int) error {
	if err := bounded(value, most); err != nil {
		return err
	}
	var record T
	return json.Unmarshal(value, &record)
}

// judgeReport checks a node's report about an endpoint, which must be homed on it. An endpoint that the index
// does not know is not refused, because agents may report about a deleted one: nothing is written then.
func (x *index) judgeReport(host, id string, value []byte) ([]*pb.Compare, error) {
	if err := bounded(value, maxReport); err != nil {
		return nil, err
	}
	homed, known := x.records[mastercfg.EndpointPrefix+id]
	if known && homed.host != host {
		return nil, fmt.Errorf("the endpoint is not homed on the node")
	}
	var record mastercfg.OperEndpointState
	if err := json.Unmarshal(value, &record); err != nil {
		return nil, err
	}
	if record.ID != id || record.HomingHost != host {
		return nil, fmt.Errorf("it is about endpoint %.100q on node %.100q", record.ID, record.HomingHost)
	}
	if record.VtepIP != "" && !slices.Contains(x.nodes[host].VTEPs, record.VtepIP) {
		return nil, fmt.Errorf("tunnel end %.60q is not one that the node joined with: one whose --vtep-ip changes joins anew: start it with a join token (--join-token-file)", record.VtepIP)
	}
	if !known {
		return []*pb.Compare{at(mastercfg.EndpointPrefix+id, never)}, nil
	}
	return []*pb.Compare{at(mastercfg.EndpointPrefix+id, homed.rev)}, nil
}

func (x *index) judgeDelete(host, key string) ([]*pb.Compare, error) {
	if strings.HasPrefix(key, objdb.ServicePrefix) {
		vtep, addr, err := splitEntry(key)
		if err != nil {
			return nil, err
		}
		return nil, errors.Join(x.ownAddress(host, addr, vtep), x.freeEntry(host, key))
	}
	if strings.HasPrefix(key, mastercfg.OperEndpointPrefix) {
		there, known := x.records[key]
		if known && there.host != host {
			return nil, fmt.Errorf("it was reported by another node")
		}
		return []*pb.Compare{at(key, there.rev)}, nil
	}
	if key == mastercfg.OvsDriverPrefix+host || key == mastercfg.K8sEnforcedKey(host) {
		return nil, nil
	}
	return nil, fmt.Errorf("nodes do not delete this")
}

// never is a revision that no key has, present or not.
const never = -1

// at returns the condition that a key was last written at a revision; 0: it is absent.
func at(key string, rev int64) *pb.Compare {
	return &pb.Compare{Key: []byte(key), Result: pb.Compare_EQUAL, Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: rev}}
}

func sameRevision(a, b *pb.Compare) bool {
	return a.GetModRevision() == b.GetModRevision()
}
