package objects

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

func createNetprofile(c *Change, p *contivmodel.Netprofile) error {
	tenant, err := tenantOf(c, p.TenantName)
	if err != nil {
		return err
	}
	if err := checkBurst(p); err != nil {
		return err
	}
	p.Links.Tenant = contivmodel.LinkTo(tenant)
	return c.put(p)
}

// checkBurst refuses a burst that is smaller than one packet.
func checkBurst(p *contivmodel.Netprofile) error {
	if p.Burst == 1 {
		return fault.New(fault.Invalid, "Invalid Burst size: 1 is too small, want 0 or 2 to 10486 kilobytes").WithField("burst")
	}
	return nil
}

// updateNetprofile changes the limits, and copies them to the groups and Kubernetes pods with the profile.
func updateNetprofile(c *Change, stored, wanted *contivmodel.Netprofile) error {
	if err := checkBurst(wanted); err != nil {
		return err
	}
	stored.Bandwidth, stored.DSCP, stored.Burst = wanted.Bandwidth, wanted.DSCP, wanted.Burst
	for _, key := range keys(stored.LinkSets.EndpointGroups) {
		group, err := master.Get[contivmodel.EndpointGroup](c, key, nil)
		if err != nil {
			return err
		}
		if group == nil {
			continue
		}
		rec, err := master.GetGroup(c, mastercfg.EndpointGroupID(group.TenantName, group.GroupName))
		if fault.Is(err, fault.NotFound) {
			continue // the reconciler creates it
		}
		if err != nil {
			return err
		}
		master.ApplyNetProfile(&rec, stored)
		if err := master.PutGroup(c.Tx, &rec); err != nil {
			return err
		}
	}
	for _, key := range master.PodsWith(c, stored) {
		pod, err := ledger.Read[mastercfg.K8sPod](c, key)
		if err != nil {
			return err
		}
		pod.Profile = master.PodProfile(stored)
		if err := ledger.Write(c.Tx, key, pod); err != nil {
			return err
		}
	}
	return c.put(stored)
}

func removeNetprofile(c *Change, p *contivmodel.Netprofile) error {
	users := names(p.LinkSets.EndpointGroups)
	for _, key := range master.PodsWith(c, p) {
		if pod, err := ledger.Read[mastercfg.K8sPod](c, key); err == nil {
			users = append(users, "pod "+pod.Pod())
		}
	}
	if len(users) > 0 {
		return fault.New(fault.InUse, "NetProfile is being used").WithDetails(users...)
	}
	master.Drop(c.Tx, p)
	return nil
}
