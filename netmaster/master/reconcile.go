package master

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Ledger is what repairs are committed through.
type Ledger interface {
	Update(ctx context.Context, plan func(tx *ledger.Tx) error) (rev int64, err error)
	View(read func(r ledger.Reader) error) error
}

// Reconciler makes derived state agree with intent again, at the start of a
// term and from time to time.
//
// No request leaves the two apart. What does is an operator's hand in the
// store, a restored backup, records of an older version, or a change too large
// for one transaction that was interrupted. Intent wins. Every repair is one
// transaction, so that an interrupted run has repaired some things and broken
// none, and each is logged. Values that cannot be decoded are reported with
// their key and left alone.
type Reconciler struct {
	ledger Ledger
	log    *logrus.Entry
	// Addresses without an owner: the runtime that asked for one may be about
	// to create the endpoint, so that only one found in two runs is freed.
	suspects map[string]bool
}

// NewReconciler makes the reconciler of a term.
func NewReconciler(ledger Ledger, log *logrus.Entry) *Reconciler {
	return &Reconciler{ledger: ledger, log: log.WithField("component", "reconcile"), suspects: map[string]bool{}}
}

// findings are descriptions of what was repaired.
type findings []string

// Run checks and repairs everything once. It fails only when the term or the
// store does; what cannot be repaired is reported.
func (rc *Reconciler) Run(ctx context.Context) error {
	if err := rc.ledger.View(reportCorrupt); err != nil {
		return err
	}
	suspects := map[string]bool{}
	for _, check := range []struct {
		what   string
		repair func(*ledger.Tx) (findings, error)
	}{
		{"former records", convert},
		{"routing domains", repairVRFs},
		{"pools", repairPools},
		{"networks", repairNetworks},
		{"groups", repairGroups},
		{"group ids", repairGroupIDs},
		{"network profiles", repairProfiles},
		{"addresses", func(tx *ledger.Tx) (findings, error) {
			clear(suspects)
			return repairHeld(tx, rc.suspects, suspects)
		}},
		{"services", repairServices},
		{"bgp", repairBgps},
		{"bindings", repairBindings},
		{"rules", repairRules},
	} {
		var found findings
		_, err := rc.ledger.Update(ctx, func(tx *ledger.Tx) (err error) {
			found, err = check.repair(tx)
			return err
		})
		if fault.Is(err, fault.NotLeader) || fault.Is(err, fault.Unavailable) {
			return err
		}
		if err != nil {
			rc.log.WithError(err).WithField("check", check.what).Error("cannot be repaired")
			continue
		}
		for _, text := range found {
			rc.log.WithField("check", check.what).Warn("repaired: " + text)
		}
	}
	rc.suspects = suspects
	return nil
}

// reportCorrupt reads every record once, which reports those that cannot be decoded.
func reportCorrupt(r ledger.Reader) error {
	for _, read := range []func(ledger.Reader) error{
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
		if err := read(r); err != nil {
			return err
		}
	}
	return nil
}

func readable[T any](prefix string) func(ledger.Reader) error {
	return func(r ledger.Reader) error {
		_, err := ledger.ReadAll[T](r, prefix)
		return err
	}
}
