package labels

import (
	"reflect"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/utils/fault"
)

func parse(t *testing.T, fields string) *netconf.Conf {
	t.Helper()
	conf, err := netconf.Parse([]byte(`{"cniVersion": "1.1.0", "name": "n"` + fields + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return conf
}

func TestALabelIsTakenFromTheFirstPlaceThatHasIt(t *testing.T) {
	const conventions = `, "args": {"cni": {"labels": [{"key": "io.contiv.tenant", "value": "green"}, {"key": "io.contiv.net-group", "value": "db"}, {"key": "app", "value": "x"}]}}`
	for _, c := range []struct {
		args, conf string
		want       Identity
	}{
		{"", "", Identity{Tenant: "default", Network: "default-net", Group: ""}},
		{"IO_CONTIV_TENANT=blue;IO_CONTIV_NETWORK=web;IO_CONTIV_NET_GROUP=front", conventions, Identity{Tenant: "blue", Network: "web", Group: "front"}},
		{"IO_CONTIV_NETWORK=web", conventions, Identity{Tenant: "green", Network: "web", Group: "db"}},
		{"", conventions + `, "tenant": "red", "network": "wide"`, Identity{Tenant: "green", Network: "wide", Group: "db"}},
		{"IO_CONTIV_TENANT=", `, "tenant": "red"`, Identity{Tenant: "red", Network: "default-net", Group: ""}},
		{"", `, "group": "all"`, Identity{Tenant: "default", Network: "default-net", Group: "all"}},
		{"FOO=bar;nonsense;IO_CONTIV_LABELS=app=web", "", Identity{Tenant: "default", Network: "default-net", Group: ""}},
	} {
		got, err := Call{}.Identify(t.Context(), netconf.ParseArgs(c.args), parse(t, c.conf))
		if !reflect.DeepEqual(got, c.want) || err != nil {
			t.Errorf("%q, %s: %v (%v), want %v", c.args, c.conf, got, err, c.want)
		}
	}
}

// A container whose group is misspelt would have no policy.
func TestMisspeltLabelsAreRefused(t *testing.T) {
	for _, c := range []struct{ args, conf string }{
		{"IO_CONTIV_GROUP=front", ""},
		{"IO_CONTIV_TENANT=blue;IO_CONTIV_NET_GROUP front", ""},
		{"io.contiv.net-group=front", ""},
		{"io_contiv_net_group=front", ""},
		{"", `, "args": {"cni": {"labels": [{"key": "io.contiv.group", "value": "front"}]}}`},
	} {
		if got, err := (Call{}).Identify(t.Context(), netconf.ParseArgs(c.args), parse(t, c.conf)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q, %s: %v (%v), want Invalid", c.args, c.conf, got, err)
		}
	}
}
