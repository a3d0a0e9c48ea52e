package labels

import (
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
		{"", "", Identity{"default", "default-net", ""}},
		{"IO_CONTIV_TENANT=blue;IO_CONTIV_NETWORK=web;IO_CONTIV_NET_GROUP=front", conventions, Identity{"blue", "web", "front"}},
		{"IO_CONTIV_NETWORK=web", conventions, Identity{"green", "web", "db"}},
		{"", conventions + `, "tenant": "red", "network": "wide"`, Identity{"green", "wide", "db"}},
		{"IO_CONTIV_TENANT=", `, "tenant": "red"`, Identity{"red", "default-net", ""}},
		{"", `, "group": "all"`, Identity{"default", "default-net", "all"}},
		{"io.contiv.tenant=blue", "", Identity{"default", "default-net", ""}},
	} {
		got, err := Call{}.Identify(t.Context(), netconf.ParseArgs(c.args), parse(t, c.conf))
		if got != c.want || err != nil {
			t.Errorf("%q, %s: %v (%v), want %v", c.args, c.conf, got, err, c.want)
		}
	}
}
