package master

import (
	"bytes"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// podProfileTerms index pods of Kubernetes by the profile that they request.
func podProfileTerms(p *struct {
	Tenant  string
	Profile struct{ Name string }
}) []string {
	if p.Profile.Name == "" {
		return nil
	}
	return []string{link("netprofile", p.Tenant+":"+p.Profile.Name, "pods")}
}

// PodsWith returns the keys of the records of pods of Kubernetes that request a profile.
func PodsWith(r ledger.Reader, profile *contivmodel.Netprofile) (keys []string) {
	found(r, link("netprofile", profile.ModelKey(), "pods"), func(key string) bool {
		keys = append(keys, key)
		return true
	})
	return keys
}

// PodProfile returns a requested profile as the record of a pod contains it.
func PodProfile(p *contivmodel.Netprofile) mastercfg.K8sProfile {
	return mastercfg.K8sProfile{Name: p.ProfileName, Bandwidth: p.Bandwidth, DSCP: p.DSCP, Burst: p.Burst}
}

// PodEndpoint finds the endpoint of a pod of Kubernetes on a host, by kubelet's UID of the pod.
func PodEndpoint(r ledger.Reader, host, uid string) (ep mastercfg.CfgEndpointState, there bool, err error) {
	found(r, hostTerm+host, func(key string) (goOn bool) {
		if ep, err = ledger.Read[mastercfg.CfgEndpointState](r, key); err != nil {
			return false
		}
		there = ep.PodUID == uid
		return !there
	})
	return ep, there, err
}

// EndpointsOfPod counts the endpoints of a pod of Kubernetes on a host.
func EndpointsOfPod(r ledger.Reader, host, uid string) (count int) {
	found(r, hostTerm+host, func(key string) bool {
		value, _ := r.Get(key)
		if !bytes.Contains(value, []byte(uid)) {
			return true // most need not be decoded
		}
		if ep, err := ledger.Read[mastercfg.CfgEndpointState](r, key); err == nil && ep.PodUID == uid {
			count++
		}
		return true
	})
	return count
}

// StaticEndpoints counts the endpoints of static pods of Kubernetes on a host.
func StaticEndpoints(r ledger.Reader, host string) int { return r.Count(staticTerm + host) }
