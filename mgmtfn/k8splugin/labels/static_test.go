package labels

import (
	"context"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// A static pod belongs where its mirror pod says, and without one where its own annotations do. No other pod is placed by those.
func TestAStaticPodWithoutAMirrorPodBelongsWhereItSays(t *testing.T) {
	const hash, uuid = "0123456789abcdef0123456789abcdef", "8c0e6f5a-7b34-4f3e-9d0c-6a1f2e3d4c5b"
	away := fault.New(fault.Unavailable, "not placed")
	conf := func(uid, more string) *netconf.Conf {
		return parse(t, `,"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"kubernetes.io/config.hash":"`+uid+`"`+more+`}}`)
	}
	identify := func(pod mastercfg.K8sPod, err error, uid string, conf *netconf.Conf) (Identity, error) {
		source := &Placed{Pod: func(context.Context, string, string, string) (mastercfg.K8sPod, error) { return pod, err }}
		source.mirrorless.tried(uid, time.Now().Add(-staticTime)) // for the first time
		return source.Identify(t.Context(), netconf.ParseArgs("K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=proxy-node1;K8S_POD_UID="+uid), conf)
	}
	says := `,"io.contiv.tenant":"blue","io.contiv.network":"inside","io.contiv.ip":"10.1.0.9"`
	for _, c := range []struct {
		name string
		pod  mastercfg.K8sPod
		err  error
		uid  string
		conf *netconf.Conf
		want Identity
		fail string
	}{
		{"with a mirror pod", mastercfg.K8sPod{UID: hash, Tenant: "red", Network: "n"}, nil, hash, conf(hash, says), Identity{Tenant: "red", Network: "n", PodUID: hash}, ""},
		{"refused by it", mastercfg.K8sPod{Reason: "TenantNotAllowed", Message: "no"}, nil, hash, conf(hash, says), Identity{}, "TenantNotAllowed"},
		{"without one", mastercfg.K8sPod{}, away, hash, conf(hash, says), Identity{Tenant: "blue", Network: "inside", PodUID: hash, IPv4: netip.MustParseAddr("10.1.0.9")}, ""},
		{"without one, and silent", mastercfg.K8sPod{}, away, hash, conf(hash, ""), Identity{Tenant: "default", Network: "default-net", PodUID: hash}, ""},
		{"with nonsense", mastercfg.K8sPod{}, away, hash, conf(hash, `,"io.contiv.ip":"x"`), Identity{}, "io.contiv.ip"},
		{"a pod that says so, too", mastercfg.K8sPod{}, away, uuid, conf(uuid, says), Identity{}, "not placed"},
		{"the hash of another", mastercfg.K8sPod{}, away, hash, conf("00", says), Identity{}, "not placed"},
	} {
		got, err := identify(c.pod, c.err, c.uid, c.conf)
		if !reflect.DeepEqual(got, c.want) || (err != nil) != (c.fail != "") || err != nil && !strings.Contains(err.Error(), c.fail) {
			t.Errorf("%s: %+v, %v; want %+v, %q", c.name, got, err, c.want, c.fail)
		}
	}
}

// A mirror pod that is only late, as the leader's list of pods after a boot, decides where the pod belongs.
func TestAStaticPodIsTriedForAWhileBeforeItCountsAsOneWithoutAMirrorPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hash = "0123456789abcdef0123456789abcdef"
		placed := false
		source := &Placed{Pod: func(ctx context.Context, _, _, _ string) (mastercfg.K8sPod, error) {
			if placed {
				return mastercfg.K8sPod{Tenant: "blue", Network: "inside"}, nil
			}
			<-ctx.Done()
			return mastercfg.K8sPod{}, fault.New(fault.Unavailable, "not placed")
		}}
		conf := parse(t, `,"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"kubernetes.io/config.hash":"`+hash+`"}}`)
		try := func(after time.Duration) string {
			time.Sleep(after)
			got, err := source.Identify(t.Context(), netconf.ParseArgs("K8S_POD_NAMESPACE=lot;K8S_POD_NAME=proxy-node1;K8S_POD_UID="+hash), conf)
			if err != nil {
				return "not yet"
			}
			return got.Tenant
		}
		var got []string
		for range 3 {
			got = append(got, try(10*time.Second))
		}
		placed = true
		got = append(got, try(0))
		placed = false
		got = append(got, try(time.Hour)) // another time
		for range 4 {
			got = append(got, try(10*time.Second))
		}
		want := []string{"not yet", "not yet", "not yet", "blue", "not yet", "not yet", "not yet", "not yet", "default"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
