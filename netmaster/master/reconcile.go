package master

import (
	"context"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Ledger reads and changes the state.
type Ledger interface {
	Update(ctx context.Context, plan func(tx *ledger.Tx) error) (rev int64, err error)
	Preview(ctx context.Context, plan func(tx *ledger.Tx) error) error
	View(read func(r ledger.Reader) error) error
}

// Reconciler makes derived state agree with intent again, at the start of a term and from time to time.
//
// No request makes the two differ. What does is an operator's change of the store, a restored backup, or
// records of an older version. Intent wins.
//
// Everything is checked in a preview, concurrently with requests, which delays none. Only what differs is
// repaired, one record with its dependents at a time: an interrupted run has repaired some and broken none, and
// each repair is logged. Values that cannot be decoded are reported with their key and left unchanged.
type Reconciler struct {
	ledger Ledger
	log    *logrus.Entry
	// Held addresses that had no owner in the last run, and in this one, by key, with the revision of their
	// records: an address that is assigned again has a new one.
	suspects, next map[string]int64
	looked         int64 // the revision up to which values were checked
}

// NewReconciler makes the reconciler of a term.
func NewReconciler(ledger Ledger, log *logrus.Entry) *Reconciler {
	return &Reconciler{ledger: ledger, log: log.WithField("component", "reconcile"), suspects: map[string]int64{}}
}

// findings are descriptions of what was repaired.
type findings []string

// check is one kind of repair.
type check struct {
	what   string
	below  []string                              // prefixes of the keys that are checked, in order
	repair func(*pass, string) (findings, error) // repairs what belongs to a key, if anything is wrong
}

// pass is a check of one state.
type pass struct {
	*ledger.Tx
	containers map[string][]mastercfg.CfgEndpointState // by tenant, each read once
}

// firstChecks returns the repairs that are needed before anything can be allocated.
func (rc *Reconciler) firstChecks() []check {
	return []check{
		// Addresses that an older netmaster recorded as held would be assigned twice.
		{"former lists", formerLists, dropFormer},
		{"former networks", []string{mastercfg.NetworkPrefix}, convertNetwork},
		{"former groups", []string{mastercfg.EndpointGroupPrefix}, convertGroup},
		// Without a range no tags can be assigned, and the modes not be changed.
		{"tag ranges", []string{mastercfg.ModelKey("global", "")}, repairRanges},
		// A tenant with more endpoints than its bound gets no new ones.
		{"bounds", []string{mastercfg.ModelKey("tenant", "")}, repairBound},
	}
}

// otherChecks returns the other repairs. Plans that run before them are refused or repaired later: a network
// without its record accepts no endpoints, a missing rule is written. Each repair relies on those before it.
func (rc *Reconciler) otherChecks() []check {
	objects := func(objType string) string { return mastercfg.ModelKey(objType, "") }
	return []check{
		// Groups and rules in a fabric differ from others.
		{"modes", []string{objects("global")}, repairGlobal},
		{"routing domains", []string{mastercfg.VRFPrefix, objects("tenant")}, repairVRF},
		{"networks", []string{objects("network"), mastercfg.NetworkPrefix}, repairNetwork},
		// The record of a group has the tags of its network.
		{"groups", []string{objects("endpointGroup"), mastercfg.EndpointGroupPrefix}, repairGroup},
		// A group without a record has just got an id; of earlier records two may have the same id.
		{"group ids", []string{mastercfg.EndpointGroupPrefix}, repairGroupID},
		{"network profiles", []string{objects("endpointGroup")}, repairProfile},
		// A service without a record gets an address of its network.
		{"services", []string{objects("serviceLB"), mastercfg.ServiceLBPrefix, mastercfg.ProviderPrefix}, repairService},
		// An address that a service has is not held: services are repaired by now.
		{"addresses", []string{mastercfg.HeldPrefix}, rc.repairHeld},
		{"bgp", []string{objects("Bgp"), mastercfg.BgpPrefix}, repairBgp},
		// A binding has the id of its group, a rule the ids of two groups.
		{"bindings", []string{objects("endpointGroup"), mastercfg.PolicyPrefix}, repairBinding},
		{"rules", []string{mastercfg.PolicyPrefix, mastercfg.PolicyRulePrefix}, repairRule},
	}
}

// Prepare makes the repairs that must precede the first request of a term. It fails only if the term ends or
// the store fails; what cannot be repaired is reported.
func (rc *Reconciler) Prepare(ctx context.Context) error { return rc.run(ctx, rc.firstChecks()) }

// Run checks and repairs everything once, like Prepare, but concurrently with requests.
func (rc *Reconciler) Run(ctx context.Context) error {
	if err := rc.ledger.View(rc.reportCorrupt); err != nil {
		return err
	}
	rc.next = map[string]int64{}
	if err := rc.run(ctx, append(rc.firstChecks(), rc.otherChecks()...)); err != nil {
		return err
	}
	rc.suspects = rc.next
	return nil
}

func (rc *Reconciler) run(ctx context.Context, checks []check) error {
	for _, c := range checks {
		wrong, err := rc.findWrong(ctx, c)
		if err != nil {
			return err
		}
		for _, key := range wrong {
			if err := rc.repair(ctx, c, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// findWrong finds the keys that need a repair.
func (rc *Reconciler) findWrong(ctx context.Context, c check) (wrong []string, err error) {
	err = rc.ledger.Preview(ctx, func(tx *ledger.Tx) error {
		p := newPass(tx)
		for _, prefix := range c.below {
			tx.Range(prefix, func(key string, _ []byte) bool {
				if found, err := c.repair(p, key); err != nil || len(found) > 0 {
					wrong = append(wrong, key)
				}
				return ctx.Err() == nil
			})
		}
		return ctx.Err()
	})
	return wrong, err
}

func newPass(tx *ledger.Tx) *pass { return &pass{tx, map[string][]mastercfg.CfgEndpointState{}} }

// repair repairs the records of a key and reports the repairs.
func (rc *Reconciler) repair(ctx context.Context, c check, key string) error {
	var found findings
	_, err := rc.ledger.Update(ctx, func(tx *ledger.Tx) (err error) {
		found, err = c.repair(newPass(tx), key)
		return err
	})
	if fault.Is(err, fault.NotLeader) || fault.Is(err, fault.Unavailable) {
		return err
	}
	log := rc.log.WithField("check", c.what)
	if err != nil {
		log.WithError(err).WithField("key", key).Error("cannot be repaired")
		return nil
	}
	for _, text := range found {
		log.Warn("repaired: " + text)
	}
	return nil
}

// modelBelow returns the model key in the store key of an object of a type; ok is false for other keys.
func modelBelow(key, objType string) (string, bool) {
	return strings.CutPrefix(key, mastercfg.ModelKey(objType, ""))
}

// readSound reads a value; ok is false if it is absent or cannot be decoded.
func readSound[T any](r ledger.Reader, key string) (v T, ok bool) {
	v, err := ledger.Read[T](r, key)
	return v, err == nil
}

// reportCorrupt reads the records that have changed since the last run, and reports those that cannot be decoded.
func (rc *Reconciler) reportCorrupt(r ledger.Reader) error {
	newest := r.Newest()
	for _, read := range []func(ledger.Reader, int64){
		readable[contivmodel.Tenant](mastercfg.ModelKey("tenant", "")),
		readable[contivmodel.Network](mastercfg.ModelKey("network", "")),
		readable[contivmodel.EndpointGroup](mastercfg.ModelKey("endpointGroup", "")),
		readable[contivmodel.Policy](mastercfg.ModelKey("policy", "")),
		readable[contivmodel.Rule](mastercfg.ModelKey("rule", "")),
		readable[contivmodel.Netprofile](mastercfg.ModelKey("netprofile", "")),
		readable[contivmodel.Bgp](mastercfg.ModelKey("Bgp", "")),
		readable[contivmodel.ServiceLB](mastercfg.ModelKey("serviceLB", "")),
		readable[contivmodel.ExtContractsGroup](mastercfg.ModelKey("extContractsGroup", "")),
		readable[contivmodel.AppProfile](mastercfg.ModelKey("appProfile", "")),
		readable[contivmodel.AciGw](mastercfg.ModelKey("aciGw", "")),
		readable[mastercfg.CfgNetworkState](mastercfg.NetworkPrefix),
		readable[mastercfg.EndpointGroupState](mastercfg.EndpointGroupPrefix),
		readable[mastercfg.CfgEndpointState](mastercfg.EndpointPrefix),
		readable[mastercfg.EpgPolicy](mastercfg.PolicyPrefix),
		readable[mastercfg.CfgPolicyRule](mastercfg.PolicyRulePrefix),
		readable[mastercfg.CfgServiceLBState](mastercfg.ServiceLBPrefix),
		readable[mastercfg.SvcProvider](mastercfg.ProviderPrefix),
		readable[mastercfg.CfgBgpState](mastercfg.BgpPrefix),
		readable[mastercfg.VRFState](mastercfg.VRFPrefix),
	} {
		read(r, rc.looked)
	}
	rc.looked = newest
	return nil
}

func readable[T any](prefix string) func(ledger.Reader, int64) {
	return func(r ledger.Reader, since int64) {
		r.Range(prefix, func(key string, value []byte) bool {
			if r.Revision(key) > since {
				ledger.Check[T](r, key, value)
			}
			return true
		})
	}
}
