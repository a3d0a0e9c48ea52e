package labels

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

func TestAPodBelongsWhereNetmasterHasPlacedIt(t *testing.T) {
	late := errors.New("not yet")
	source := &Placed{Pod: func(_ context.Context, namespace, name, uid string) (mastercfg.K8sPod, error) {
		switch namespace + "/" + name + "/" + uid {
		case "shop/web/u1":
			return mastercfg.K8sPod{UID: "u1", Tenant: "blue", Network: "inside", Group: "front", IPv4: netip.MustParseAddr("10.1.0.9"), HostPorts: []mastercfg.HostPort{{Port: 80}}}, nil
		case "shop/bad/u2":
			return mastercfg.K8sPod{Reason: "GroupNotFound", Message: "no such group"}, nil
		}
		return mastercfg.K8sPod{}, late
	}}
	identify := func(args string) (Identity, error) {
		return source.Identify(t.Context(), netconf.ParseArgs(args), parse(t, ""))
	}
	got, err := identify("K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=u1")
	if want := (Identity{Tenant: "blue", Network: "inside", Group: "front", PodUID: "u1", IPv4: netip.MustParseAddr("10.1.0.9"), HostPorts: []mastercfg.HostPort{{Port: 80}}}); !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if _, err := identify("K8S_POD_NAMESPACE=shop;K8S_POD_NAME=bad;K8S_POD_UID=u2"); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "GroupNotFound: no such group") {
		t.Errorf("a refused pod: %v", err)
	}
	if _, err := identify("K8S_POD_NAMESPACE=shop;K8S_POD_NAME=new"); !errors.Is(err, late) {
		t.Errorf("a pod not placed yet: %v", err)
	}
	if _, err := identify("K8S_POD_NAME=web"); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "K8S_POD_NAMESPACE") {
		t.Errorf("without a namespace: %v", err)
	}
}
