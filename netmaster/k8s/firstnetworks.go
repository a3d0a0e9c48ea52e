package k8s

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/inet"
)

// firstNetworks creates the two networks that a new cluster needs: that of its pods, and the one through which
// nodes reach them. Existing networks are never changed.
func (c *Controller) firstNetworks(ctx context.Context) error {
	var isNew bool
	var global contivmodel.Global
	err := c.ledger.View(func(r ledger.Reader) (err error) {
		if isNew = master.IsNew(r); isNew {
			global, err = ledger.Read[contivmodel.Global](r, mastercfg.ModelKey("global", contivmodel.GlobalName))
		}
		return err
	})
	if err != nil || !isNew {
		return err
	}
	if global.FwdMode != "routing" {
		c.cfg.Log.Warn("kubernetes: there are no networks, and none are made, since the forwarding mode is not routing")
		return nil
	}
	around, err := c.findRanges(ctx, global.PvtSubnet)
	if err != nil {
		return err
	}
	chosen, err := around.choose()
	if err != nil {
		return err
	}
	pods := &contivmodel.Network{TenantName: mastercfg.DefaultTenant, NetworkName: mastercfg.DefaultNetwork, Encap: "vxlan"}
	nodes := &contivmodel.Network{TenantName: mastercfg.DefaultTenant, NetworkName: mastercfg.AccessNetwork, Encap: "vxlan", NwType: "infra"}
	for _, r := range chosen {
		addRange(pods, r.pods.prefix)
		addRange(nodes, r.nodes.prefix)
	}
	made, err := c.cfg.Model.FirstNetworks(ctx, pods, nodes)
	if made {
		for _, r := range chosen {
			c.cfg.Log.Infof("kubernetes: a new cluster: pods get addresses of %s (%s), nodes of %s", r.pods.prefix, r.pods.what, r.nodes.prefix)
		}
	}
	return err
}

// addRange sets a range of a network, with its first address as gateway.
func addRange(n *contivmodel.Network, p netip.Prefix) {
	gateway := p.Addr().Next().String()
	if p.Addr().Is4() {
		n.Subnet, n.Gateway = p.String(), gateway
	} else {
		n.Ipv6Subnet, n.Ipv6Gateway = p.String(), gateway
	}
}

// findRanges reads from the API server which address ranges the cluster uses.
func (c *Controller) findRanges(ctx context.Context, private string) (s surroundings, err error) {
	services, err := c.cfg.Client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, fmt.Errorf("list ServiceCIDRs: %w", err)
	}
	for _, o := range services.Items {
		for _, text := range o.Spec.CIDRs {
			if p, err := netip.ParsePrefix(text); err == nil { // the API server has validated it
				s.services = append(s.services, claim{"service range " + o.Name, p})
			}
		}
	}
	nodes, err := c.cfg.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, fmt.Errorf("list nodes: %w", err)
	}
	assigned := map[bool][]netip.Prefix{} // by whether they are IPv4
	for _, n := range nodes.Items {
		for _, a := range n.Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil { // otherwise a name
				s.taken = append(s.taken, claim{"address of node " + n.Name, inet.Host(addr)})
			}
		}
		for _, text := range n.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				assigned[p.Addr().Is4()] = append(assigned[p.Addr().Is4()], p)
			}
		}
	}
	if p, err := netip.ParsePrefix(private); err == nil {
		s.taken = append(s.taken, claim{"private subnet", p})
	}
	kubeadm, err := c.kubeadmRanges(ctx)
	if err != nil {
		return s, err
	}
	s.pods = []source{{"--cluster-cidr", c.cfg.PodRanges}, {"podSubnet of kubeadm", kubeadm}}
	for _, parts := range assigned {
		// That of a single node is only a part of what a growing cluster will have.
		if whole, ok := block(parts); ok && !slices.Contains(parts, whole) {
			s.pods = append(s.pods, source{"podCIDRs of the nodes", []netip.Prefix{whole}})
		}
	}
	return s, nil
}

// kubeadmRanges returns the pod CIDRs in kubeadm's configuration; none if the cluster was not installed by
// kubeadm, or without permission to read it.
func (c *Controller) kubeadmRanges(ctx context.Context) ([]netip.Prefix, error) {
	const namespace, name = "kube-system", "kubeadm-config"
	m, err := c.cfg.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("config map %s/%s: %w", namespace, name, err)
	}
	var cluster struct {
		Networking struct {
			PodSubnet string `json:"podSubnet"`
		} `json:"networking"`
	}
	if err := yaml.Unmarshal([]byte(m.Data["ClusterConfiguration"]), &cluster); err != nil {
		return nil, fmt.Errorf("config map %s/%s: ClusterConfiguration: %w", namespace, name, err)
	}
	all, err := ParseRanges(cluster.Networking.PodSubnet)
	if err != nil {
		return nil, fmt.Errorf("config map %s/%s: podSubnet %q: %w", namespace, name, cluster.Networking.PodSubnet, err)
	}
	return all, nil
}
