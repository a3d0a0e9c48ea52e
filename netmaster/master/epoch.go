package master

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// A new epoch causes admitted connections to be evaluated again (docs/pipeline.md, Tiers). Policies of Kubernetes
// change it where they are written. Rules of groups change it where they end the evaluation of connections, in a
// tenant whose policyMode is final: a plan that changes such rules, the group of an endpoint there, or the mode of a
// tenant also changes the epoch. The rules of other tenants are evaluated for every packet.

// lastFloor leaves numbers for epochs, whatever the clock's time is.
const lastFloor = math.MaxUint32 - 1<<24

// EpochFloor returns the number that the epochs of a new term exceed: the time in seconds since 1970,
// which no earlier term has reached.
func EpochFloor(began time.Time) uint32 { return uint32(max(0, min(began.Unix(), lastFloor))) }

// NextEpoch returns the epoch after another one, above a floor. After the restore of a backup, switches may know
// epochs that the store does not, and connections admitted in these must not count as admitted by the present
// policies.
func NextEpoch(last, floor uint32) uint32 {
	next := last + 1
	if next <= floor {
		next += ((floor-next)/pipeline.EpochCycle + 1) * pipeline.EpochCycle
	}
	return next
}

// rejudging returns a part of each plan of a term: it changes the epoch if the plan changes the verdicts of group
// rules.
func rejudging(floor uint32) func(*ledger.Tx) error {
	return func(tx *ledger.Tx) error {
		if !judgesOtherwise(tx) {
			return nil
		}
		epoch, err := ledger.Read[mastercfg.K8sEpoch](tx, mastercfg.K8sEpochKey)
		if fault.Is(err, fault.NotFound) {
			return nil // no connection is admitted in any epoch
		}
		// The number of a damaged record is unknown; it is above the floor in any case.
		return ledger.Write(tx, mastercfg.K8sEpochKey, mastercfg.K8sEpoch{Number: NextEpoch(epoch.Number, floor)})
	}
}

// judgesOtherwise reports whether a plan has changed the mode of a tenant, or rules of a tenant whose mode is
// final. It is false if the plan has changed the epoch itself.
func judgesOtherwise(tx *ledger.Tx) (otherwise bool) {
	rules := map[string]bool{} // tenants with changed rules or changed members of groups
	its := false
	tx.Changes(func(key string, before, now []byte) bool {
		its = its || key == mastercfg.K8sEpochKey
		if bytes.Equal(before, now) {
			return true
		}
		if id, is := strings.CutPrefix(key, mastercfg.PolicyRulePrefix); is && mastercfg.IsOfFirstPackets(id) {
			tenant, _, _ := strings.Cut(id, ":")
			rules[tenant] = true
		}
		if strings.HasPrefix(key, mastercfg.EndpointPrefix) && before != nil && now != nil {
			was, is := groupIn(before), groupIn(now)
			if was.EndpointGroupID != is.EndpointGroupID {
				rules[was.tenant()], rules[is.tenant()] = true, true
			}
		}
		otherwise = otherwise || strings.HasPrefix(key, mastercfg.VRFPrefix) && modeIn(before) != modeIn(now)
		return true
	})
	for tenant := range rules {
		record, _ := tx.Get(mastercfg.VRFPrefix + tenant)
		otherwise = otherwise || modeIn(record) == mastercfg.PolicyFinal
	}
	return otherwise && !its
}

// member is the group in the record of an endpoint.
type member struct {
	EndpointGroupID  int    `json:"endpointGroupId"`
	EndpointGroupKey string `json:"endpointGroupKey"` // G:T; empty: none
}

// groupIn reads the group from the record of an endpoint; it is empty if the record cannot be read.
func groupIn(record []byte) (m member) {
	_ = json.Unmarshal(record, &m)
	return m
}

func (m member) tenant() string {
	_, tenant, _ := strings.Cut(m.EndpointGroupKey, ":")
	return tenant
}
