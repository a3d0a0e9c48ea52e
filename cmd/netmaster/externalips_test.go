package main

import (
	"context"
	"testing"

	"github.com/urfave/cli/v3"
)

// Services have externalIPs unless a flag, or its variable, disables them.
func TestExternalIPsAreSwitchedOffByAFlag(t *testing.T) {
	for _, c := range []struct {
		variable string
		args     []string
		want     bool
	}{
		{"", nil, true}, {"true", nil, true}, {"false", nil, false},
		{"", []string{"--k8s-external-ips=false"}, false}, {"false", []string{"--k8s-external-ips"}, true},
	} {
		t.Setenv("CONTIV_NETMASTER_K8S_EXTERNAL_IPS", c.variable)
		var o options
		cmd := command(&o)
		cmd.Action = func(context.Context, *cli.Command) error { return nil }
		if err := cmd.Run(t.Context(), append([]string{"netmaster"}, c.args...)); err != nil || o.externalIPs != c.want {
			t.Errorf("variable %q, flags %q: %v, %v; want %v", c.variable, c.args, o.externalIPs, err, c.want)
		}
	}
}
