package k8s

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/objdb/ledger"
)

// rangesOverlap is the reason of events about a ServiceCIDR that overlaps with other addresses.
const rangesOverlap = "RangesOverlap"

// maxOverlaps is how many overlaps an event names.
const maxOverlaps = 4

// overlapReconciler reports ServiceCIDRs that overlap with other addresses: they can be created at any time,
// and a new cluster refuses only those that it begins with.
func (c *Controller) overlapReconciler() *reconciler {
	cidrs, nodes := c.informers.Networking().V1().ServiceCIDRs(), c.informers.Core().V1().Nodes()
	all := func(any) []string { return cidrs.Informer().GetStore().ListKeys() }
	return &reconciler{
		kind: "overlap of a range of service", workers: 1, rest: changesTogether,
		follows: []followed{{informer: cidrs.Informer(), concerns: byName}, {informer: nodes.Informer(), concerns: all}},
		known:   func(ledger.Reader) ([]string, error) { return nil, nil }, // the state has no records of it
		reconcile: func(_ context.Context, name string) (time.Duration, error) {
			cidr, err := cidrs.Lister().Get(name)
			if apierrors.IsNotFound(err) {
				c.warnings.clear(cidrKey(name))
				c.notes.clear(cidrKey(name))
				return 0, nil
			}
			if err != nil {
				return 0, err
			}
			return externalAgain, c.reportOverlaps(cidr, nodes.Lister()) // networks and the private subnet may change as well
		},
	}
}

func cidrKey(name string) string { return "servicecidr/" + name }

// reportOverlaps reports what overlaps with a ServiceCIDR. Networks are in the cluster's status already.
func (c *Controller) reportOverlaps(cidr *networkingv1.ServiceCIDR, nodes corelisters.NodeLister) error {
	var networks, others []string
	err := c.ledger.View(func(r ledger.Reader) error {
		addresses, err := nodeClaims(nodes)
		if err != nil {
			return err
		}
		private, err := privateClaims(r)
		if err != nil {
			return err
		}
		for _, text := range cidr.Spec.CIDRs {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				continue // not reached: the API server has validated it
			}
			for _, other := range slices.Concat(private, addresses) {
				if p.Overlaps(other.prefix) {
					others = append(others, fmt.Sprintf("%s overlaps %s", p, other))
				}
			}
			found, err := master.InServices(r, p)
			if err != nil {
				return err
			}
			for _, n := range found {
				networks = append(networks, fmt.Sprintf("%s overlaps network %s of tenant %s %s", p, n.NetworkName, n.TenantName, master.SubnetLike(n, p)))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.inform(cidr, cidrKey(cidr.Name), rangesOverlap, overlapText(slices.Concat(others, networks)))
	c.warnings.set(cidrKey(cidr.Name), cidr.UID, rangesOverlap, overlapText(others))
	return nil
}

// overlapText describes overlaps and the remedy; empty: none.
func overlapText(all []string) string {
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all) // so that the text is the same each time
	more := ""
	if n := len(all) - maxOverlaps; n > 0 {
		all, more = all[:maxOverlaps], fmt.Sprintf("; and %d more", n)
	}
	return strings.Join(all, "; ") + more + ": pods and nodes reach only one of both; delete the ServiceCIDR, and make one of addresses that nobody has"
}
