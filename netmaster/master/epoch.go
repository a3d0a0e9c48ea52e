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

// Connections that were admitted are judged anew in another epoch (docs/pipeline.md, Tiers). Policies of Kubernetes
// change it where they are written. Rules of groups do where they end the judgement of connections: in a tenant whose
// policyMode is final. Whoever changes such rules, the group of an endpoint there, or the mode of a tenant, the epoch
// changes in the same plan; other tenants' rules judge every packet, so nothing has to be judged anew.

// lastFloor leaves numbers for epochs, whatever the clock says.
const lastFloor = math.MaxUint32 - 1<<24

// EpochFloor is what epochs of a term are above that begins: the time, in seconds since 1970, which those of terms before have not come to.
func EpochFloor(began time.Time) uint32 { return uint32(max(0, min(began.Unix(), lastFloor))) }

// NextEpoch is the epoch after another one, above a floor. Switches may know epochs that the store does not, as that has gone back
// to a backup, and connections that were admitted in these must not count as admitted by what is said today.
func NextEpoch(last, floor uint32) uint32 {
	next := last + 1
	if next <= floor {
		next += ((floor-next)/pipeline.EpochCycle + 1) * pipeline.EpochCycle
	}
	return next
}

// rejudging is a part of each plan of a term: it changes the epoch if rules of groups judge otherwise by it.
func rejudging(floor uint32) func(*ledger.Tx) error {
	return func(tx *ledger.Tx) error {
		if !judgesOtherwise(tx) {
			return nil
		}
		epoch, err := ledger.Read[mastercfg.K8sEpoch](tx, mastercfg.K8sEpochKey)
		if fault.Is(err, fault.NotFound) {
			return nil // nothing is admitted in any
		}
		// Of a damaged one the number is not known; it is above the floor in any case.
		return ledger.Write(tx, mastercfg.K8sEpochKey, mastercfg.K8sEpoch{Number: NextEpoch(epoch.Number, floor)})
	}
}

// judgesOtherwise tells whether a plan has changed the mode of a tenant, or rules of one whose mode is final. What it
// has changed the epoch for itself does not count twice.
func judgesOtherwise(tx *ledger.Tx) (otherwise bool) {
	rules := map[string]bool{} // tenants of which it has changed some, or who is in which group
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

// member is what the record of an endpoint says of its group.
type member struct {
	EndpointGroupID  int    `json:"endpointGroupId"`
	EndpointGroupKey string `json:"endpointGroupKey"` // G:T; empty: none
}

// groupIn reads it; of one that cannot be read nothing is known.
func groupIn(record []byte) (m member) {
	_ = json.Unmarshal(record, &m)
	return m
}

func (m member) tenant() string {
	_, tenant, _ := strings.Cut(m.EndpointGroupKey, ":")
	return tenant
}
