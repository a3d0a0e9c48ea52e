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

// A static pod is placed by its mirror pod, and without one by its own annotations. No other pod is placed by
// those.
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

// A mirror pod that is only late, as the leader's list of pods after a boot may be, decides where the pod belongs.
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

// The host ports of a static pod without a mirror pod are known from the runtime only.
func TestAStaticPodWithoutAMirrorPodHasThePortsOfTheNodeThatTheRuntimeTells(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef"
	mirror := []mastercfg.HostPort{{Protocol: "tcp", Port: 1, To: 2}}
	for _, c := range []struct {
		mappings string
		mirror   []mastercfg.HostPort // of a mirror pod; nil: there is none
		want     []mastercfg.HostPort
		fail     string
	}{
		{mappings: `[]`},
		{mappings: `[{"hostPort":8080,"containerPort":80,"protocol":"tcp","hostIP":""},{"hostPort":53,"containerPort":5353,"protocol":"UDP","hostIP":"192.0.2.1"},
			{"hostPort":53,"containerPort":5353,"protocol":"sctp","hostIP":"fd00::1"},{"hostPort":65535,"containerPort":65535,"hostIP":"::"}]`,
			want: []mastercfg.HostPort{
				{Protocol: "tcp", Port: 8080, To: 80}, {Protocol: "udp", Port: 53, To: 5353, Address: netip.MustParseAddr("192.0.2.1")},
				{Protocol: "sctp", Port: 53, To: 5353, Address: netip.MustParseAddr("fd00::1")}, {Protocol: "tcp", Port: 65535, To: 65535},
			}},
		{mappings: `[{"hostPort":0,"containerPort":80,"protocol":"tcp"},{}]`},
		{mappings: `[{"hostPort":81,"containerPort":80,"protocol":"tcp","hostIP":"0.0.0.0"},{"hostPort":81,"containerPort":80,"protocol":"tcp"}]`,
			want: []mastercfg.HostPort{{Protocol: "tcp", Port: 81, To: 80}}},
		{mappings: `[{"hostPort":82,"containerPort":80,"hostIP":"::ffff:192.0.2.1"}]`,
			want: []mastercfg.HostPort{{Protocol: "tcp", Port: 82, To: 80, Address: netip.MustParseAddr("192.0.2.1")}}},
		{mappings: `[{"hostPort":8080,"containerPort":80}]`, mirror: mirror, want: mirror},
		{mappings: `[{"hostPort":-1,"containerPort":80}]`, mirror: mirror, want: mirror}, // not read at all
		{mappings: `[{"hostPort":-1,"containerPort":80}]`, fail: "hostPort -1"},
		{mappings: `[{"hostPort":65536,"containerPort":80}]`, fail: "hostPort 65536"},
		{mappings: `[{"hostPort":80,"containerPort":-2}]`, fail: "containerPort -2"},
		{mappings: `[{"hostPort":80,"containerPort":0}]`, fail: "containerPort 0"},
		{mappings: `[{"hostPort":80,"containerPort":70000}]`, fail: "containerPort 70000"},
		{mappings: `[{"hostPort":80,"containerPort":80,"protocol":"icmp"}]`, fail: `protocol "icmp"`},
		{mappings: `[{"hostPort":80,"containerPort":80,"hostIP":"192.0.2"}]`, fail: `hostIP "192.0.2"`},
		{mappings: `[{"hostPort":80,"containerPort":80,"hostIP":"fe80::1%eth0"}]`, fail: `hostIP "fe80::1%eth0"`},
	} {
		source := &Placed{Pod: func(context.Context, string, string, string) (mastercfg.K8sPod, error) {
			if c.mirror != nil {
				return mastercfg.K8sPod{UID: hash, HostPorts: c.mirror}, nil
			}
			return mastercfg.K8sPod{}, fault.New(fault.Unavailable, "not placed")
		}}
		source.mirrorless.tried(hash, time.Now().Add(-staticTime))
		conf := parse(t, `,"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"kubernetes.io/config.hash":"`+hash+`"},"portMappings":`+c.mappings+`}`)
		got, err := source.Identify(t.Context(), netconf.ParseArgs("K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=proxy-node1;K8S_POD_UID="+hash), conf)
		if !reflect.DeepEqual(got.HostPorts, c.want) {
			t.Errorf("%s: %v, want %v", c.mappings, got.HostPorts, c.want)
		}
		if (err != nil) != (c.fail != "") || err != nil && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.fail)) {
			t.Errorf("%s: %v, want an error with %q", c.mappings, err, c.fail)
		}
	}
}
