package labels

import (
	"reflect"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
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
		{"io.contiv.tenant=blue", "", Identity{Tenant: "default", Network: "default-net", Group: ""}},
	} {
		got, err := Call{}.Identify(t.Context(), netconf.ParseArgs(c.args), parse(t, c.conf))
		if !reflect.DeepEqual(got, c.want) || err != nil {
			t.Errorf("%q, %s: %v (%v), want %v", c.args, c.conf, got, err, c.want)
		}
	}
}
