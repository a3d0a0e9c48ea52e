package labels

import (
	"maps"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/utils/fault"
)

func TestLabelsOfAContainerComeFromTheConfigurationAndTheArguments(t *testing.T) {
	const conventions = `, "args": {"cni": {"labels": [{"key": "io.contiv.tenant", "value": "green"}, {"key": "app", "value": "db"}, {"key": "zone", "value": ""}]}}`
	for _, c := range []struct {
		args, conf string
		want       map[string]string
	}{
		{"", "", map[string]string{}},
		{"", conventions, map[string]string{"app": "db", "zone": ""}},
		{"IO_CONTIV_LABELS=app=web,tier=1;IO_CONTIV_TENANT=blue", conventions, map[string]string{"app": "web", "tier": "1", "zone": ""}},
		{"IO_CONTIV_LABELS=a=b=c,,empty=", "", map[string]string{"a": "b=c", "empty": ""}},
	} {
		got, err := Container(netconf.ParseArgs(c.args), parse(t, c.conf))
		if !maps.Equal(got, c.want) || err != nil {
			t.Errorf("%q, %s: %v (%v), want %v", c.args, c.conf, got, err, c.want)
		}
	}
	for _, args := range []string{"IO_CONTIV_LABELS=web", "IO_CONTIV_LABELS=a=b,=c"} {
		if got, err := Container(netconf.ParseArgs(args), parse(t, "")); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, %v", args, got, err)
		}
	}
}
